package node

import (
	"net/netip"

	"github.com/journalet/journalet/messages/journaletv1"
)

// HostIPs returns the addresses that pods get as the node's, as far as the Node object has them: the first of its
// addresses of type InternalIP, then ExternalIP, and after it the first one of the other family (pkg/util/node of
// Kubernetes). known is false as long as nobody knows the Node, and for a journal of an earlier version. A Node that
// is known and has no address has none for its pods, too.
func HostIPs(o *journaletv1.NodeObserved) (ips []string, known bool) {
	if o.GetUid() == "" || o.GetIps() == nil {
		return nil, false
	}
	var first netip.Addr
	for _, list := range [][]string{o.GetIps().GetInternal(), o.GetIps().GetExternal()} {
		for _, text := range list {
			ip, err := netip.ParseAddr(text)
			switch {
			case err != nil:
			case !first.IsValid():
				first, ips = ip, []string{text}
			case ip.Is4() != first.Is4():
				return append(ips, text), true
			}
		}
	}
	return ips, true
}
