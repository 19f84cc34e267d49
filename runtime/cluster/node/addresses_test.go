package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// As a kubelet's (pkg/kubelet/nodestatus): what is found is one address, what is given may be two, and a cloud
// controller has the last word.
func TestAddressesOfTheNodeAreGivenOrFoundAndTheCloudsOnceItHasSome(t *testing.T) {
	list := func(ips ...string) []string { return ips }
	found, given := list("fd00::1", "10.0.0.1"), list("192.0.2.1", "2001:db8::1")
	for name, c := range map[string]struct {
		settings         Settings
		cloud            []string
		want, annotation string
	}{
		"found":     {settings: Settings{Addresses: found}, want: "fd00::1 n"},
		"by family": {settings: Settings{Addresses: found, ByFamily: true}, want: "fd00::1 n"},
		"given": {
			settings: Settings{Addresses: given, NodeIPs: given}, want: "192.0.2.1 2001:db8::1 n",
		},
		"none":     {want: "n"},
		"external": {settings: Settings{External: true, Addresses: found}, want: "n"},
		"external, by family": {
			settings: Settings{External: true, Addresses: found, ByFamily: true}, want: "fd00::1 n",
		},
		"external, by family, none yet": {settings: Settings{External: true, ByFamily: true}, want: "n"},
		"external, given": {
			settings: Settings{External: true, Addresses: given, NodeIPs: given}, want: "192.0.2.1 2001:db8::1 n",
			annotation: "192.0.2.1,2001:db8::1",
		},
		"external, by family, set by the cloud": {
			settings: Settings{External: true, Addresses: found, ByFamily: true}, cloud: list("198.51.100.1"),
			want: "198.51.100.1",
		},
	} {
		n := &corev1.Node{}
		n.Annotations = map[string]string{providedIP: "10.9.9.9"} // of another flag
		for _, ip := range c.cloud {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
		c.settings.Name = "n"
		setAddresses(n, &c.settings)
		var got []string
		for _, a := range n.Status.Addresses {
			got = append(got, a.Address)
		}
		if strings.Join(got, " ") != c.want || n.Annotations[providedIP] != c.annotation {
			t.Errorf("%s: addresses %q, annotation %q; want %q, %q", name, got, n.Annotations[providedIP], c.want, c.annotation)
		}
	}
}
