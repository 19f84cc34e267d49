package cri

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestPodAddressesAreOneAFamilyTheNodesFamilyFirst(t *testing.T) {
	for _, one := range []struct{ have, host, want string }{
		{"10.88.0.7", "", "10.88.0.7"},
		{"fd00::7 10.88.0.7", "", "10.88.0.7 fd00::7"},
		{"fd00::7 10.88.0.7", "192.0.2.1", "10.88.0.7 fd00::7"},
		{"10.88.0.7 fd00::7", "2001:db8::1", "fd00::7 10.88.0.7"},
		{"10.88.0.7 10.88.0.8 fd00:0::7 fd00::8", "192.0.2.1", "10.88.0.7 fd00::7"},
		{"", "192.0.2.1", ""},
	} {
		network := &runtimeapi.PodSandboxNetworkStatus{}
		for i, ip := range strings.Fields(one.have) {
			if i == 0 {
				network.Ip = ip
				continue
			}
			network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
		if got := strings.Join(PodIPs(network, strings.Fields(one.host)), " "); got != one.want {
			t.Errorf("addresses of %q on a node with %q: %q, want %q", one.have, one.host, got, one.want)
		}
	}
}
