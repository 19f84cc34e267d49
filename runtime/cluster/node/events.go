package node

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// conditionEvents are the kubelet's reasons for a condition that becomes true or false.
var conditionEvents = map[corev1.NodeConditionType][2]string{
	corev1.NodeMemoryPressure: {"NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
	corev1.NodeDiskPressure:   {"NodeHasDiskPressure", "NodeHasNoDiskPressure"},
	corev1.NodePIDPressure:    {"NodeHasInsufficientPID", "NodeHasSufficientPID"},
	corev1.NodeReady:          {"NodeReady", "NodeNotReady"},
}

// emitConditions emits an event for each condition that has another status. As with the kubelet, a Node that begins as
// ready or not has no event for that.
func (d *Driver) emitConditions(before, after []corev1.NodeCondition) {
	for _, c := range after {
		reasons, ours := conditionEvents[c.Type]
		i := slices.IndexFunc(before, func(b corev1.NodeCondition) bool { return b.Type == c.Type })
		switch {
		case !ours, i >= 0 && before[i].Status == c.Status, i < 0 && c.Type == corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			d.emitStatus(reasons[0])
		default:
			d.emitStatus(reasons[1])
		}
	}
}

// emitStatus emits an event in the kubelet's form for its status.
func (d *Driver) emitStatus(reason string) {
	d.opts.Emit(reason, "Node "+d.opts.Settings.Name+" status is now: "+reason)
}

// Startup are the moments of the start of a Node that this run has created.
type Startup struct {
	// Started is when the driver was created, Attempted when it first requested the Node's creation, Registered when the
	// Node was created, and Ready when it was reported as ready; zero: not yet.
	Started, Attempted, Registered, Ready time.Time
}

// attempted registers the first attempt to create the Node.
func (d *Driver) attempted() {
	if d.startup.Attempted.IsZero() {
		d.startup.Attempted = d.opts.Now()
	}
}

// created registers that the Node was created.
func (d *Driver) created() {
	if d.startup.Registered.IsZero() {
		d.startup.Registered = d.opts.Now()
		d.reportStartup()
	}
}

// becameReady registers a status that was sent.
func (d *Driver) becameReady(st *corev1.NodeStatus) {
	if d.startup.Registered.IsZero() || !d.startup.Ready.IsZero() {
		return
	}
	if slices.ContainsFunc(st.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) {
		d.startup.Ready = d.opts.Now()
		d.reportStartup()
	}
}

func (d *Driver) reportStartup() {
	if d.opts.Startup != nil {
		d.opts.Startup(d.startup)
	}
}
