package node

import (
	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages/journaletv1"
)

// observation returns what is recorded of a Node.
func observation(n *corev1.Node) *journaletv1.NodeObserved {
	if n == nil {
		return &journaletv1.NodeObserved{}
	}
	out := &journaletv1.NodeObserved{Uid: string(n.UID), Labels: n.Labels, PodCidrs: n.Spec.PodCIDRs}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, &journaletv1.NodeTaint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	out.Ips = &journaletv1.NodeIPs{
		Internal: addressesOf(n, corev1.NodeInternalIP), External: addressesOf(n, corev1.NodeExternalIP),
	}
	return out
}

// addressesOf returns the first address of each family among the addresses of one type, in their order. Others decide
// nothing, and there may be many.
func addressesOf(n *corev1.Node, kind corev1.NodeAddressType) []string {
	var out []string
	seen := map[bool]bool{}
	for _, a := range n.Status.Addresses {
		ip := netutils.ParseIPSloppy(a.Address) // as the kubelet: 010.0.0.1 is an address
		if four := ip.To4() != nil; a.Type == kind && ip != nil && !seen[four] {
			seen[four] = true
			out = append(out, ip.String())
		}
	}
	return out
}

// HostIPs returns the addresses that pods get as the node's, by the newest stored record of the Node; known is false if
// there is none.
func (d *Driver) HostIPs() (ips []string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return node.HostIPs(d.stored)
}
