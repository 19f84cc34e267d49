package podstatus

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/test/must"
)

var (
	begun = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC))
	later = metav1.NewTime(begun.Add(time.Hour))
)

// status parses a status.
func status(t *testing.T, text string) *corev1.PodStatus {
	t.Helper()
	s := new(corev1.PodStatus)
	must.OK(t, yaml.UnmarshalStrict([]byte(text), s))
	return s
}

// merge is one case: the pod's spec, what the API server has, what the pod shows, and what is to be there. The start
// time is the API server's, and is left out of the wanted status.
type merge struct {
	name, spec, is, view, want string
	mayRun                     bool
}

var merges = []merge{
	{
		name: "conditions of others stay and own ones that are gone go", mayRun: true,
		is: `{phase: Pending, conditions: [{type: example.com/lb, status: "True", reason: Up},
			{type: PodScheduled, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"},
			{type: PodResizePending, status: "True", reason: Deferred}]}`,
		view: `{phase: Running, conditions: [{type: Ready, status: "True"},
			{type: PodScheduled, status: "True", lastTransitionTime: "2026-03-01T12:00:00Z"},
			{type: example.com/lb, status: "False"}]}`,
		want: `{phase: Running, conditions: [{type: example.com/lb, status: "True", reason: Up},
			{type: PodScheduled, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"},
			{type: Ready, status: "True"}]}`,
	},
	{
		name: "a terminal phase is never left",
		is:   `{phase: Failed, reason: Evicted, message: m, conditions: [{type: Ready, status: "False"}]}`,
		view: `{phase: Succeeded, conditions: [{type: Ready, status: "False", reason: PodCompleted}]}`,
		want: `{phase: Failed, reason: Evicted, message: m, conditions: [{type: Ready, status: "False",
			reason: PodCompleted}]}`,
	},
	{
		name: "a terminal phase waits until no container can run", mayRun: true,
		is: `{phase: Running, reason: r, message: m}`,
		view: `{phase: Failed, reason: DeadlineExceeded, message: late,
			conditions: [{type: DisruptionTarget, status: "True"}]}`,
		want: `{phase: Running, reason: r, message: m}`,
	},
	{
		name: "a terminal phase comes with the disruption and without readiness",
		is:   `{phase: Running, conditions: [{type: DisruptionTarget, status: "True", reason: Old}]}`,
		view: `{phase: Failed, reason: Terminated, conditions: [{type: Ready, status: "True"},
			{type: DisruptionTarget, status: "True", reason: TerminationByKubelet}]}`,
		want: `{phase: Failed, reason: Terminated, conditions: [{type: DisruptionTarget, status: "True",
			reason: TerminationByKubelet}, {type: Ready, status: "False", reason: PodFailed,
			lastTransitionTime: "2026-03-01T13:00:00Z"}, {type: ContainersReady, status: "False", reason: PodFailed,
			lastTransitionTime: "2026-03-01T13:00:00Z"}]}`,
	},
	{
		name: "the disruption is written once",
		is:   `{phase: Failed, conditions: [{type: DisruptionTarget, status: "True", reason: Other}]}`,
		view: `{phase: Failed, conditions: [{type: DisruptionTarget, status: "True", reason: TerminationByKubelet}]}`,
		want: `{phase: Failed, conditions: [{type: DisruptionTarget, status: "True", reason: Other}]}`,
	},
	{
		name: "a container that ended revives by its policy alone", mayRun: true,
		spec: `{restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}`,
		is: `{phase: Running, containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}},
			{name: b, state: {terminated: {exitCode: 1}}}]}`,
		view: `{phase: Running, containerStatuses: [{name: b, state: {running: {}}}, {name: a, state: {running: {}}}]}`,
		want: `{phase: Running, containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}},
			{name: b, state: {running: {}}}]}`,
	},
	{
		name: "a rule of a container revives it", mayRun: true,
		spec: `{restartPolicy: Never, containers: [{name: a, restartPolicy: Never,
			restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]}`,
		is:   `{phase: Running, containerStatuses: [{name: a, state: {terminated: {exitCode: 42}}}]}`,
		view: `{phase: Running, containerStatuses: [{name: a, state: {waiting: {reason: CrashLoopBackOff}}}]}`,
		want: `{phase: Running, containerStatuses: [{name: a, state: {waiting: {reason: CrashLoopBackOff}}}]}`,
	},
	{
		name: "no sidecar revives of a pod with a terminal phase", mayRun: true,
		spec: `{restartPolicy: Never, initContainers: [{name: s, restartPolicy: Always}], containers: [{name: a}]}`,
		is: `{phase: Failed, initContainerStatuses: [{name: s, state: {terminated: {exitCode: 1}}}],
			containerStatuses: [{name: a, state: {terminated: {exitCode: 1}}}]}`,
		view: `{phase: Running, initContainerStatuses: [{name: s, state: {running: {}}}],
			containerStatuses: [{name: a, state: {running: {}}}]}`,
		want: `{phase: Failed, initContainerStatuses: [{name: s, state: {terminated: {exitCode: 1}}}],
			containerStatuses: [{name: a, state: {terminated: {exitCode: 1}}}]}`,
	},
	{
		name: "containers without an end get one", spec: `{containers: [{name: a}, {name: b}]}`,
		is: `{phase: Pending, containerStatuses: [{name: a, state: {terminated: {exitCode: 3}}}]}`,
		view: `{phase: Failed, containerStatuses: [{name: a, state: {waiting: {}}},
			{name: b, state: {waiting: {reason: ContainerCreating}}}]}`,
		want: `{phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 3}}},
			{name: b, state: {terminated: {exitCode: 137, reason: ContainerStatusUnknown,
			message: The container could not be located when the pod was terminated}}}]}`,
	},
	{
		name: "main containers that were never due have no end",
		spec: `{initContainers: [{name: i}, {name: j}], containers: [{name: a}]}`,
		is:   `{phase: Pending}`,
		view: `{phase: Failed, containerStatuses: [{name: a, state: {waiting: {}}}],
			initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1}}}, {name: j, state: {waiting: {}}}]}`,
		want: `{phase: Failed, containerStatuses: [{name: a, state: {waiting: {}}}],
			initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1}}}, {name: j, state: {waiting: {}}}]}`,
	},
	{
		name: "an ephemeral container that ended never revives", mayRun: true,
		spec: `{restartPolicy: Always, containers: [{name: a}], ephemeralContainers: [{name: e}, {name: f}]}`,
		is:   `{phase: Running, ephemeralContainerStatuses: [{name: e, state: {terminated: {exitCode: 3}}}]}`,
		view: `{phase: Running, ephemeralContainerStatuses: [{name: f, state: {waiting: {}}},
			{name: e, state: {running: {}}}]}`,
		want: `{phase: Running, ephemeralContainerStatuses: [{name: e, state: {terminated: {exitCode: 3}}},
			{name: f, state: {waiting: {}}}]}`,
	},
	{
		name: "an ephemeral container that never ran has no end",
		spec: `{containers: [{name: a}], ephemeralContainers: [{name: f}]}`, is: `{phase: Running}`,
		view: `{phase: Failed, ephemeralContainerStatuses: [{name: f, state: {waiting: {reason: ContainerCreating}}}]}`,
		want: `{phase: Failed, ephemeralContainerStatuses: [{name: f, state: {waiting: {reason: ContainerCreating}}}]}`,
	},
	{
		name: "what is set once stays, and what belongs to others", mayRun: true,
		is: `{phase: Pending, observedGeneration: 4, qosClass: Burstable, resourceClaimStatuses: [{name: c}],
			podIPs: [{ip: 10.0.0.9}], podIP: 10.0.0.9, hostIP: 192.0.2.1, hostIPs: [{ip: 192.0.2.1}]}`,
		view: `{phase: Pending, observedGeneration: 3, qosClass: BestEffort}`,
		want: `{phase: Pending, observedGeneration: 4, qosClass: Burstable, resourceClaimStatuses: [{name: c}],
			podIPs: [{ip: 10.0.0.9}], podIP: 10.0.0.9, hostIP: 192.0.2.1, hostIPs: [{ip: 192.0.2.1}]}`,
	},
	{
		name: "one address of each family, in the order of the pod's, whatever the Node's", mayRun: true,
		is:   `{phase: Pending}`,
		view: `{phase: Running, hostIP: "2001:db8::1", podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}, {ip: 10.0.0.2}]}`,
		want: `{phase: Running, hostIP: "2001:db8::1", podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}], podIP: 10.0.0.1}`,
	},
	{
		name: "addresses of the node's network are fixed, but for a second family", mayRun: true,
		spec: `{hostNetwork: true}`,
		is:   `{phase: Pending, podIPs: [{ip: 192.0.2.1}]}`,
		view: `{phase: Running, podIPs: [{ip: 192.0.2.7}, {ip: "2001:db8::1"}]}`,
		want: `{phase: Running, podIPs: [{ip: 192.0.2.1}, {ip: "2001:db8::1"}], podIP: 192.0.2.1}`,
	},
}

func (m merge) input(t *testing.T) Input {
	t.Helper()
	in := Input{View: &corev1.Pod{Status: *status(t, m.view)}, Is: status(t, m.is), MayRun: m.mayRun, Now: later}
	must.OK(t, yaml.UnmarshalStrict([]byte(m.spec), &in.View.Spec))
	in.Is.StartTime = &begun
	return in
}

func TestMergeFollowsTheRulesOfOwnership(t *testing.T) {
	for _, m := range merges {
		t.Run(m.name, func(t *testing.T) {
			in := m.input(t)
			view, is := in.View.DeepCopy(), in.Is.DeepCopy()
			got := Merge(in)
			want := status(t, m.want)
			want.StartTime = &begun
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("merged to\n%s\nwant\n%s", text(t, got), text(t, want))
			}
			if !equality.Semantic.DeepEqual(in.View, view) || !equality.Semantic.DeepEqual(in.Is, is) {
				t.Error("the merge has changed its input")
			}
			in.Is = got
			if again := Merge(in); !equality.Semantic.DeepEqual(again, got) {
				t.Errorf("merged again to\n%s\nwant\n%s", text(t, again), text(t, got))
			}
		})
	}
}

func TestStartTimeIsSetOnce(t *testing.T) {
	in := Input{View: new(corev1.Pod), Is: new(corev1.PodStatus), Now: later}
	in.View.Status.Phase = corev1.PodFailed
	if got := Merge(in).StartTime; got == nil || !got.Time.Equal(later.Truncate(time.Second)) {
		t.Errorf("a pod that was rejected has the start time %v", got)
	}
	in.View.Status.StartTime = &begun
	got := Merge(in)
	if !got.StartTime.Time.Equal(begun.Truncate(time.Second)) {
		t.Errorf("the start time is %v, want that of the pod in seconds", got.StartTime)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must.OK(t, err)
	return string(b)
}

func TestPatchHasOnlyWhatDiffers(t *testing.T) {
	for _, c := range []struct{ name, is, to, want string }{
		{"nothing", `{phase: Running}`, `{phase: Running, conditions: []}`, ``},
		{"a field that is gone", `{phase: Pending, reason: r}`, `{phase: Running}`, `{"phase":"Running","reason":null}`},
		{
			"conditions", `{conditions: [{type: A, status: "True", reason: r}, {type: B, status: "True"}]}`,
			`{conditions: [{type: A, status: "False"}, {type: C, status: "True"}]}`,
			`{"$setElementOrder/conditions":[{"type":"A"},{"type":"C"}],"conditions":[{"reason":null,"status":"False",` +
				`"type":"A"},{"lastProbeTime":null,"lastTransitionTime":null,"status":"True","type":"C"},` +
				`{"$patch":"delete","type":"B"}]}`,
		},
		{
			"addresses", `{podIPs: [{ip: 10.0.0.1}]}`, `{}`,
			`{"$setElementOrder/podIPs":[],"podIPs":[{"$patch":"delete","ip":"10.0.0.1"}]}`,
		},
		{
			"resources", `{resources: {limits: {cpu: 1, memory: 1Gi}}}`, `{resources: {limits: {cpu: 2}}}`,
			`{"resources":{"limits":{"cpu":"2","memory":null}}}`,
		},
	} {
		got, err := Patch("u", status(t, c.is), status(t, c.to))
		must.OK(t, err)
		want := c.want
		if want != "" {
			want = `{"metadata":{"uid":"u"},"status":` + want + `}`
		}
		if string(got) != want {
			t.Errorf("%s: the patch is\n%s\nwant\n%s", c.name, got, want)
		}
	}
}
