package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages/journaletv1"
)

// otherFor is how long after its last status another machine counts as reporting itself as this Node: the two overwrite
// each other's status by turns, at most every Options.Update.
const otherFor = 10 * time.Minute

// others registers which machine a Node's status is from (ADR 062). Each boot of a machine has a boot ID of its own. So
// another boot ID than ours, after ours was shown, belongs to a machine with the same name.
type others struct {
	// ours is the UID of the Node that the API server has shown with a status of this machine.
	ours types.UID
	// last is the other machine, seen when it was last shown; nil: none was.
	last *journaletv1.OtherMachine
	seen time.Time
}

// show registers a Node that is newer than those before. machine is this one.
func (o *others) show(n *corev1.Node, machine *Machine, now time.Time) {
	boot := n.Status.NodeInfo.BootID
	switch {
	case boot == "" || machine.BootID == "":
	case boot == machine.BootID:
		o.ours = n.UID
	case o.ours == n.UID:
		o.last, o.seen = machineOf(n), now
	}
}

// foreign reports whether the status of a Node is of another machine, or of another boot.
func foreign(n *corev1.Node, machine *Machine) bool {
	return n != nil && n.Status.NodeInfo.BootID != "" && machine.BootID != "" &&
		n.Status.NodeInfo.BootID != machine.BootID
}

// present returns the other machine that reports itself as this Node; nil: none does.
func (o *others) present(now time.Time) *journaletv1.OtherMachine {
	if o.last == nil || now.Sub(o.seen) >= otherFor {
		return nil
	}
	return o.last
}

// ownerBefore returns the machine that a Node was of before this one took it over; nil if it was of this one, or of
// none.
func ownerBefore(n *corev1.Node, machine *Machine) *journaletv1.OtherMachine {
	if id := n.Status.NodeInfo.MachineID; id == "" || machine.MachineID == "" || id == machine.MachineID {
		return nil
	}
	return machineOf(n)
}

func machineOf(n *corev1.Node) *journaletv1.OtherMachine {
	out := &journaletv1.OtherMachine{MachineId: n.Status.NodeInfo.MachineID, BootId: n.Status.NodeInfo.BootID}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out.Address = a.Address
			break
		}
	}
	return out
}
