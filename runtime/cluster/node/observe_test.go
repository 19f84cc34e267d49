package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func withAddresses(all ...corev1.NodeAddress) *corev1.Node {
	n := &corev1.Node{}
	n.UID, n.Status.Addresses = "u", all
	return n
}

// The first of each family and type are recorded, as addresses in their usual form: a Node may have any number.
func TestAddressesOfTheNodeAreRecordedAsFarAsTheyDecide(t *testing.T) {
	n := withAddresses(
		corev1.NodeAddress{Type: corev1.NodeHostName, Address: "10.9.9.9"},
		corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "192.0.2.1"},
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "n.example"},
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "010.0.0.001"},
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "FD00:0::1"},
	)
	for range 10_000 {
		n.Status.Addresses = append(n.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.2"})
	}
	o := observation(n).GetIps()
	if !slices.Equal(o.GetInternal(), []string{"10.0.0.1", "fd00::1"}) ||
		!slices.Equal(o.GetExternal(), []string{"192.0.2.1"}) {
		t.Errorf("recorded %v", o)
	}
	if o := observation(withAddresses()).GetIps(); o == nil || len(o.GetInternal())+len(o.GetExternal()) > 0 {
		t.Errorf("of a Node without addresses %v is recorded", o)
	}
}

// Other drivers see a record after this one: what they compute from it has its addresses.
func TestHostIPsFollowTheStoredRecord(t *testing.T) {
	d := New(Options{})
	if ips, known := d.HostIPs(); known {
		t.Errorf("%q are known of no Node", ips)
	}
	d.Seed(&journaletv1.NodeObserved{Uid: "u"}, false)
	if ips, known := d.HostIPs(); known {
		t.Errorf("%q are known of a record of an earlier version", ips)
	}
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		o := observation(withAddresses(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address}))
		d.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(o)}})
		if ips, known := d.HostIPs(); !known || !slices.Equal(ips, []string{address}) {
			t.Errorf("%q, known: %v, want %s", ips, known, address)
		}
	}
}
