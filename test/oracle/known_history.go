package oracle

import "slices"

// What differs of pods with a history.
const (
	itsCalls      = "containers created, started and stopped"
	itsHooks      = "hooks run"
	itsContainers = "containers left"
	sandboxesRun  = "sandboxes run"
	sandboxesLeft = "sandboxes left"
	// runs is each difference of calls beside a container that differs.
	runs = "sandboxes, containers and hooks run"
)

// historyKeys begins the keys of histories' differences.
const historyKeys = "history: "

// ready are the conditions that follow from whether containers are ready.
var ready = []string{
	"status conditions.ContainersReady.message", "status conditions.ContainersReady.reason",
	"status conditions.ContainersReady.status", "status conditions.Ready.message", "status conditions.Ready.reason",
	"status conditions.Ready.status",
}

// presumed are the fields of a presumed run of a container.
var presumed = []string{
	"status of a container lastState.terminated.exitCode", "status of a container lastState.terminated.message",
	"status of a container lastState.terminated.reason", "status of a container restartCount",
	"status of a container state.terminated.message",
}

// historyDifference is what one class of containers (class.go) causes.
type historyDifference struct {
	class string
	meant
	// own is what differs of the container itself, beside what follows for the pod and its other containers.
	own, beside []string
}

// histories holds the differences of pods with a history.
var histories = []historyDifference{
	{class: neverStarted, meant: meant{
		"we create it again and remove the first one; the kubelet takes it for a terminated one without an " +
			"exit code, under Never and OnFailure does nothing, and keeps it",
		"created container that was never started"},
		own:    []string{itsCalls, itsContainers, itsHooks, "status of a container state.waiting.reason"},
		beside: []string{runs, sandboxesLeft}},
	{class: unknownAgain, meant: meant{
		"its last end is not that of the instance before, which the kubelet takes for its own",
		"container in an unknown state"},
		own:    []string{itsCalls, itsContainers, itsHooks},
		beside: []string{runs}},
	{class: unknownEnds, meant: meant{
		"we stop it before its sandbox, and under Never it counts as terminated; the kubelet takes it for " +
			"dead, or starts it again",
		"container in an unknown state"},
		own:    []string{itsCalls, itsHooks, "status of a container state.waiting.reason"},
		beside: append(slices.Clone(ready), runs)},
	{class: unknownHook, meant: meant{
		"nothing shows that it runs",
		"preStop of a container in an unknown state"},
		own: []string{itsHooks}},
	{class: ownPolicyLost, meant: meant{
		"it holds for a new sandbox, too; the kubelet uses the pod's, and starts terminated containers again",
		"policy of its own"},
		own:    []string{itsCalls, itsContainers, itsHooks},
		beside: []string{runs, sandboxesLeft}},
	{class: initLost, meant: meant{
		"we keep and count the newest dead instance of each as of every container; the kubelet removes all " +
			"instances and counts from 0 again",
		"init containers of an earlier sandbox"},
		own:    []string{itsCalls, itsContainers, itsHooks},
		beside: []string{sandboxesLeft}},
	{class: startedAgain, meant: meant{
		"the new instance has not started up; the kubelet reports that it has until its startup probe has " +
			"run (feature gate ChangeContainerStatusOnKubeletRestart)",
		"`started` of a replaced container"},
		own:    []string{"status of a container ready", "status of a container started"},
		beside: append(slices.Clone(ready), runs, "status conditions.Initialized.message")},
	{class: startingSide, meant: meant{
		"we replace it at once; the kubelet waits until its startup probe has succeeded",
		"sidecar with another image that has not started up"},
		own: []string{itsCalls}},
	{class: unhealthyRules, meant: meant{
		"the exit code of a container stopped as unhealthy has no meaning; the kubelet applies them one sync later",
		"restartPolicyRules of an unhealthy container"},
		own:    []string{itsCalls, itsHooks},
		beside: []string{runs}}, // it runs the pod's init containers first, in a new sandbox
	{class: initGone, meant: meant{
		"our message differs; when it runs again in a new sandbox, the kubelet counts the presumed run",
		"init container without a trace"},
		own:    slices.Concat(presumed, []string{itsCalls, itsHooks}),
		beside: []string{runs}},
	{class: endingForGood, meant: meant{
		"we start it once more, until the last main container has ended",
		"dead sidecar at the end of the main containers"},
		beside: []string{runs}},
}

// with returns the known differences and the differences of histories.
func with(known map[string]meant, histories []historyDifference) map[string]meant {
	for _, d := range histories {
		for _, what := range d.own {
			known[historyKeys+d.class+what] = d.meant
		}
		for _, what := range d.beside {
			known[historyKeys+"beside "+d.class+what] = d.meant
		}
	}
	return known
}
