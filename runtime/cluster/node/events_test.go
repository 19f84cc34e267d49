package node

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/features"
)

func TestChangesOfTheNodeAreEmitted(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.untilEmitted("NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady")
	w.mu.Lock()
	w.runtime.Down = "stopped"
	w.mu.Unlock()
	w.driver.Stored(health())
	w.untilEmitted("NodeNotReady")
	w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
	for _, cordoned := range []bool{true, false} {
		var n corev1.Node
		w.api.Change("nodes", "", "", "n", &n, func() { n.Spec.Unschedulable = cordoned })
		w.untilEmitted(map[bool]string{true: "NodeNotSchedulable", false: "NodeSchedulable"}[cordoned])
	}
}

func TestConditionsOfPressureAreReported(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.driver.SeedPressure([]string{"PIDPressure"})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.untilEmitted("NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasInsufficientPID", "NodeReady")
	decided := func(conditions ...string) {
		w.driver.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
			Decisions: []*journaletv1.Event{messages.NewEvent(&journaletv1.NodePressureDecided{Conditions: conditions})},
		}}})
	}
	decided("DiskPressure", "MemoryPressure")
	w.untilEmitted("NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasSufficientPID")
	for _, c := range w.node().Status.Conditions {
		if c.Type == corev1.NodeDiskPressure && (c.Status != corev1.ConditionTrue ||
			c.Reason != "KubeletHasDiskPressure" || c.Message != "kubelet has disk pressure") {
			t.Errorf("%+v", c)
		}
	}
	decided()
	w.untilEmitted("NodeHasSufficientMemory", "NodeHasNoDiskPressure")
}

func TestConditionsKeepTheirTransitionOverARestart(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	long := metav1.NewTime(w.now.Add(-time.Hour))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeMemoryPressure: corev1.ConditionFalse, corev1.NodeDiskPressure: corev1.ConditionUnknown,
		corev1.NodePIDPressure: corev1.ConditionTrue, corev1.NodeReady: corev1.ConditionTrue,
	} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, LastTransitionTime: long, LastHeartbeatTime: long,
		})
	}
	w.driver.world.NoCSINode = false // as in a run before this one
	w.api.Create("nodes", n)
	w.run()
	w.untilEmitted("NodeHasNoDiskPressure", "NodeHasSufficientPID")
	for _, c := range w.node().Status.Conditions {
		changed := c.Type == corev1.NodeDiskPressure || c.Type == corev1.NodePIDPressure
		if c.LastTransitionTime.Equal(&long) == changed || c.LastHeartbeatTime.Time.Before(w.now) {
			t.Errorf("%s is %s since %s, reported at %s", c.Type, c.Status, c.LastTransitionTime, c.LastHeartbeatTime)
		}
	}
}

func TestReportAfterAChangeIsJittered(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.random = 0
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
	patches := func() int { return len(w.api.Requests("patch nodes/status")) }
	before := patches()
	w.pass(149 * time.Second)
	w.driver.Stored(health())
	w.until("inspected", func() bool { w.driver.mu.Lock(); defer w.driver.mu.Unlock(); return !w.driver.urgent })
	if got := patches(); got != before {
		t.Errorf("%d reports before half of the interval", got-before)
	}
	w.pass(2 * time.Second)
	w.until("reported after half of the interval", func() bool { return patches() == before+1 })
	// Nothing has changed: the next one comes after the whole interval.
	w.pass(299 * time.Second)
	w.driver.Stored(health())
	w.until("inspected", func() bool { w.driver.mu.Lock(); defer w.driver.mu.Unlock(); return !w.driver.urgent })
	if got := patches(); got != before+1 {
		t.Errorf("%d reports within an interval without a change", got-before-1)
	}
	w.pass(2 * time.Second)
	w.until("reported", func() bool { return patches() == before+2 })
}

func TestNodeThatWasRecordedIsNotRecordedAgain(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: defaultLabels(&w.driver.opts.Settings)}}
	setAddresses(n, &w.driver.opts.Settings)
	w.api.Create("nodes", n)
	w.driver.Seed(observation(w.node()), false)
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.facts {
		if o, ok := f.(*journaletv1.NodeObserved); ok {
			t.Errorf("recorded %v", o)
		}
	}
}

func TestRuntimeThatDoesNotAnswerKeepsWhatItHas(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.runtime = Runtime{
		Name: "containerd", Version: "v2", Groups: true, Images: []corev1.ContainerImage{{Names: []string{"a"}}},
		Handlers: []corev1.NodeRuntimeHandler{{Name: "runc"}},
	}
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.mu.Lock()
	w.runtime = Runtime{Down: "stopped"}
	w.mu.Unlock()
	w.driver.Stored(health())
	w.untilReady(corev1.ConditionFalse)
	st := w.node().Status
	if st.NodeInfo.ContainerRuntimeVersion != "containerd://2" || len(st.Images) != 1 || len(st.RuntimeHandlers) != 1 ||
		!*st.Features.SupplementalGroupsPolicy {
		t.Errorf("%+v", st)
	}
}

func TestStartOfACreatedNodeIsMeasured(t *testing.T) {
	got := make(chan Startup, 10)
	w := newWorld(t, Options{Register: true, Startup: func(s Startup) { got <- s }})
	w.run()
	for _, ready := range []bool{false, true} {
		if s := <-got; s.Started.IsZero() || s.Attempted.IsZero() || s.Registered.IsZero() || s.Ready.IsZero() == ready {
			t.Errorf("reported %+v, want ready %v", s, ready)
		}
	}
}

func TestNodeDeclaresItsFeatures(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	n := initial(&w.driver.opts.Settings, &World{}, w.now)
	if want := features.Declared(); len(want) == 0 || !slices.Equal(n.Status.DeclaredFeatures, want) {
		t.Errorf("the Node declares %v", n.Status.DeclaredFeatures)
	}
}
