package node

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// ofMachine returns the status that an agent on a machine reports.
func ofMachine(id, boot string) corev1.NodeStatus {
	return corev1.NodeStatus{
		NodeInfo:  corev1.NodeSystemInfo{MachineID: id, BootID: boot},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "6.6.6.6"}},
	}
}

// others returns the other machines of what was recorded: of the Node's registration, and of each observation.
func (w *world) others() (before *journaletv1.OtherMachine, beside []*journaletv1.OtherMachine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.facts {
		switch f := f.(type) {
		case *journaletv1.NodeRegistered:
			before = f.GetOtherMachine()
		case *journaletv1.NodeObserved:
			beside = append(beside, f.GetOtherMachine())
		}
	}
	return before, beside
}

func TestNodeOfAnotherMachineIsTakenOver(t *testing.T) {
	for id, want := range map[string]string{"theirs": "theirs at 6.6.6.6", "ours": " at ", "": " at "} {
		t.Run(id, func(t *testing.T) {
			w := newWorld(t, Options{Register: true, Settings: Settings{Machine: Machine{MachineID: "ours", BootID: "2"}}})
			w.api.Create("nodes", &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: ofMachine(id, "1"),
				Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}}},
			})
			w.run()
			w.untilReady(corev1.ConditionTrue)
			before, beside := w.others()
			if got := before.GetMachineId() + " at " + before.GetAddress(); got != want {
				t.Errorf("recorded that it was of %q, want %q", got, want)
			}
			if len(beside) == 0 || beside[len(beside)-1] != nil {
				t.Errorf("recorded %v: the boot before ours is not of another machine", beside)
			}
			n := w.node()
			if got := n.Status.NodeInfo.MachineID; got != "ours" || len(n.Spec.Taints) != 1 {
				t.Errorf("the Node is of %q with taints %v, want ours and the taint kept", got, n.Spec.Taints)
			}
		})
	}
}

func TestTwoMachinesOfOneNameAreReportedOnce(t *testing.T) {
	w := newWorld(t, Options{Register: true, Settings: Settings{Machine: Machine{MachineID: "m", BootID: "ours"}}})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
	boot := func() string { return w.node().Status.NodeInfo.BootID }
	for range 3 { // they overwrite each other's status by turns
		var n corev1.Node
		w.api.Change("nodes", "status", "", "n", &n, func() {
			n.Status.NodeInfo, n.Status.Addresses = ofMachine("m", "theirs").NodeInfo, ofMachine("m", "theirs").Addresses
		})
		w.until("reported", func() bool {
			_, beside := w.others()
			return len(beside) > 0 && beside[len(beside)-1].GetBootId() == "theirs"
		})
		w.until("seen", func() bool { return w.driver.Node().Status.NodeInfo.BootID == "theirs" })
		w.pass(11 * time.Second)
		w.until("corrected", func() bool { return boot() == "ours" })
	}
	var reports []string
	_, beside := w.others()
	for _, o := range beside {
		if o != nil {
			reports = append(reports, o.GetMachineId()+" "+o.GetBootId()+" "+o.GetAddress())
		}
	}
	w.driver.mu.Lock()
	if ips := w.driver.observed.GetIps().GetInternal(); !slices.Equal(ips, []string{"10.0.0.1"}) {
		t.Errorf("the addresses that count are %q", ips)
	}
	w.driver.mu.Unlock()
	if len(reports) != 1 || reports[0] != "m theirs 6.6.6.6" {
		t.Errorf("recorded %q, want the other machine once", reports)
	}
	w.pass(otherFor)
	w.until("it is gone", func() bool {
		_, beside := w.others()
		return beside[len(beside)-1] == nil
	})
}

func TestResourceThatTheAgentNoLongerHasIsTakenOffTheNode(t *testing.T) {
	is := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
		"hugepages-2Mi": resource.MustParse("4Mi"), "hugepages-1Gi": resource.MustParse("1Gi"),
	}
	n := &corev1.Node{Status: corev1.NodeStatus{Capacity: is, Allocatable: is.DeepCopy()}}
	takeOver(n, &Settings{Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), "hugepages-2Mi": resource.MustParse("4Mi"),
	}}, true)
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		if _, cpu := list[corev1.ResourceCPU]; len(list) != 2 || !cpu {
			t.Errorf("the Node has %v", list)
		}
	}
}

// TestResourceOfAnOperatorStaysOverARestart: the kubelet sets the resources of others to 0 if it has no checkpoint of
// its devices, ours if its journal does not know the Node, or if another agent has written the Node's status since.
func TestResourceOfAnOperatorStaysOverARestart(t *testing.T) {
	for _, c := range []struct {
		recovered bool
		version   string
		want      int64
	}{
		{true, KubeletVersion("v0.1.0"), 4},
		{false, KubeletVersion("v0.1.0"), 0},
		{true, "v1.37.1", 0},
	} {
		w := newWorld(t, Options{Register: true, Settings: Settings{Version: "v0.2.0"}})
		four := corev1.ResourceList{"operator.example.com/dongle": resource.MustParse("4")}
		existing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
			Capacity: four, Allocatable: four.DeepCopy(), NodeInfo: corev1.NodeSystemInfo{KubeletVersion: c.version},
		}}
		w.api.Create("nodes", existing)
		if c.recovered {
			w.driver.Seed(observation(w.node()), false)
		}
		w.run()
		w.untilReady(corev1.ConditionTrue)
		n := w.node()
		has, free := n.Status.Capacity["operator.example.com/dongle"], n.Status.Allocatable["operator.example.com/dongle"]
		if has.Value() != c.want || free.Value() != c.want {
			t.Errorf("recovered: %v, last written by %s: the Node has %v and offers %v, want %d",
				c.recovered, c.version, &has, &free, c.want)
		}
	}
}
