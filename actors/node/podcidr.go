package node

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// maxPodCIDRs bounds the CIDRs of a node: one of each family (API: validation of spec.podCIDRs).
	maxPodCIDRs = 2
	// maxCIDRBytes is more than any CIDR takes: 45 for an IPv6 address with an IPv4 one at its end, and /128.
	maxCIDRBytes = 64
)

// PodCIDR returns the pod CIDR that a runtime is given: one CIDR, or one of each family separated by a comma, in their
// order. Empty: the node has none. An error names the text that is no pod CIDR.
func PodCIDR(cidrs []string) (string, error) {
	if len(cidrs) > maxPodCIDRs {
		return "", fmt.Errorf("%d CIDRs, want one, or one of each family", len(cidrs))
	}
	families := map[bool]bool{}
	for _, c := range cidrs {
		if len(c) > maxCIDRBytes {
			return "", fmt.Errorf("%d bytes are no CIDR such as 10.1.0.0/24", len(c))
		}
		p, err := netip.ParsePrefix(c)
		if err != nil {
			return "", fmt.Errorf("%q is no CIDR such as 10.1.0.0/24", c)
		}
		if families[p.Addr().Is4()] {
			return "", errors.New("two CIDRs of one family, want one of each")
		}
		families[p.Addr().Is4()] = true
	}
	return strings.Join(cidrs, ","), nil
}

// decidePodCIDR has the runtime given the node's pod CIDR once it is another one, as the kubelet does. The runtime
// actor repeats that. An agent of an earlier version gave none, which its configuration shows.
func (a *Actor) decidePodCIDR(e actors.Event, emit actors.Emit) {
	configured := a.state.GetConfig().GetRuntimeConfig()
	if configured == nil {
		return
	}
	cidr := ""
	switch e.Body.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		if cidr = a.podCIDR(); cidr == "" {
			cidr = configured.GetPodCidr()
		}
	case *journaletv1.Event_NodeObserved:
		cidr = a.podCIDR()
	}
	if cidr != "" && cidr != a.state.GetPodCidr() {
		emit(messages.NewEvent(messages.NewCall(&journaletv1.UpdateRuntimeConfig{PodCidr: cidr})))
	}
}

// podCIDR returns the pod CIDR of the Node. Empty: the Node has none, or a text that is no pod CIDR; the runtime keeps
// its pod CIDR then.
func (a *Actor) podCIDR() string {
	cidr, err := PodCIDR(a.state.GetNode().GetPodCidrs())
	if err != nil {
		return ""
	}
	return cidr
}
