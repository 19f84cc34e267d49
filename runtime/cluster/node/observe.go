package node

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// readFor bounds a read of the Node that an admission waits for. A kubelet has no bound but the transport's.
	readFor = 10 * time.Second
	// maxFailureBytes bounds why it failed.
	maxFailureBytes = 1 << 10
)

// answer reads the Node once if the node's decider has requested it, and records the answer to all requests from before
// the read. One that fails is an answer, too: a pod is not to wait for an API server that is away.
func (d *Driver) answer(ctx context.Context) error {
	d.mu.Lock()
	request := d.requested
	d.mu.Unlock()
	if request == 0 {
		return nil
	}
	reading, cancel := context.WithTimeout(ctx, readFor)
	n, err := d.requests().Node(reading)
	cancel()
	failure := ""
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		failure = clean.Text("read the Node: "+client.Message(err), maxFailureBytes)
	default:
		d.show(n)
	}
	if err := d.record(ctx, request, failure); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requested == request {
		d.requested = 0
	}
	return nil
}

// withoutAnswer returns what a record has of the Node itself.
func withoutAnswer(o *journaletv1.NodeObserved) *journaletv1.NodeObserved {
	if o == nil {
		return &journaletv1.NodeObserved{}
	}
	o = proto.CloneOf(o)
	o.RequestId, o.Failure = 0, ""
	return o
}

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
// no such record exists.
func (d *Driver) HostIPs() (ips []string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return node.HostIPs(d.stored)
}
