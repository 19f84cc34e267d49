package agent

import (
	"slices"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/node"
	"github.com/journalet/journalet/runtime/config"
)

func TestPodsGetTheNodesAddressesAndTheMachinesWithoutANode(t *testing.T) {
	machine := []string{"10.0.0.1", "fd00::1"}
	a := &agent{facts: &config.NodeFacts{HostIPs: machine}}
	want := func(when string, ips, reached []string) {
		t.Helper()
		got, err := a.nodeIPs()
		if !slices.Equal(got, ips) || (err != nil) != (len(ips) == 0) {
			t.Errorf("%s: %q, %v; want %q", when, got, err, ips)
		}
		if got := a.hostIPs(); !slices.Equal(got, reached) {
			t.Errorf("%s: a pod on the node's network is at %q, want %q", when, got, reached)
		}
	}
	want("without a cluster", machine, machine)
	a.cluster = &cluster{node: node.New(node.Options{})}
	want("without a Node", machine, machine)
	a.cluster.node.Seed(&journaletv1.NodeObserved{Uid: "u", Ips: &journaletv1.NodeIPs{}}, false)
	want("with a Node without addresses", nil, machine)
	ips := &journaletv1.NodeIPs{Internal: []string{"192.0.2.1"}}
	a.cluster.node.Seed(&journaletv1.NodeObserved{Uid: "u", Ips: ips}, false)
	want("with a Node", []string{"192.0.2.1"}, []string{"192.0.2.1"})
}
