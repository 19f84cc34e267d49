package cri

import (
	"net/netip"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodIPs returns a sandbox's addresses as pods have them: the first of each IP family, in the order that starts with
// the family of the node's first address, or with IPv4 if the node has none (as in the kubelet). Invalid addresses are
// left out.
func PodIPs(network *runtimeapi.PodSandboxNetworkStatus, hostIPs []string) []string {
	all := []string{network.GetIp()}
	for _, more := range network.GetAdditionalIps() {
		all = append(all, more.GetIp())
	}
	var four, six string
	for _, s := range all {
		ip, err := netip.ParseAddr(s)
		switch ip = ip.Unmap(); {
		case err != nil:
		case ip.Is4() && four == "":
			four = ip.String()
		case ip.Is6() && six == "":
			six = ip.String()
		}
	}
	families := []string{four, six}
	if len(hostIPs) > 0 {
		if host, err := netip.ParseAddr(hostIPs[0]); err == nil && host.Unmap().Is6() {
			families = []string{six, four}
		}
	}
	var out []string
	for _, ip := range families {
		if ip != "" {
			out = append(out, ip)
		}
	}
	return out
}
