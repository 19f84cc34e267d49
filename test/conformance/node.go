package conformance

import (
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *suite) node(t *testing.T) {
	t.Run("has a name and a version", func(t *testing.T) {
		v := must(t, s.runtime.Version, &cri.VersionRequest{})
		equal(t, "API version", v.GetRuntimeApiVersion(), "v1")
		if v.GetRuntimeName() == "" || v.GetRuntimeVersion() == "" {
			t.Errorf("Version names no runtime: %v", v)
		}
	})
	t.Run("is ready", func(t *testing.T) {
		st := must(t, s.runtime.Status, &cri.StatusRequest{})
		ready := map[string]bool{}
		for _, c := range st.GetStatus().GetConditions() {
			ready[c.GetType()] = c.GetStatus()
		}
		equal(t, "RuntimeReady", ready[cri.RuntimeReady], true)
		equal(t, "NetworkReady", ready[cri.NetworkReady], true)
	})
	t.Run("takes a pod range", func(t *testing.T) {
		req := &cri.UpdateRuntimeConfigRequest{RuntimeConfig: &cri.RuntimeConfig{}}
		must(t, s.runtime.UpdateRuntimeConfig, req)
		req.RuntimeConfig.NetworkConfig = &cri.NetworkConfig{PodCidr: "10.1.0.0/24,fd00:1::/64"}
		must(t, s.runtime.UpdateRuntimeConfig, req)
	})
}
