package conformance

import (
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *suite) node(t *testing.T) {
	t.Run("says who it is", func(t *testing.T) {
		v, err := s.runtime.Version(call(t), &cri.VersionRequest{})
		if err != nil {
			t.Fatalf("Version: %v", err)
		}
		equal(t, "API version", v.GetRuntimeApiVersion(), "v1")
		if v.GetRuntimeName() == "" || v.GetRuntimeVersion() == "" {
			t.Errorf("Version names no runtime: %v", v)
		}
	})
	t.Run("is ready", func(t *testing.T) {
		st, err := s.runtime.Status(call(t), &cri.StatusRequest{})
		if err != nil {
			t.Fatalf("Status: %v", err)
		}
		ready := map[string]bool{}
		for _, c := range st.GetStatus().GetConditions() {
			ready[c.GetType()] = c.GetStatus()
		}
		equal(t, "RuntimeReady", ready[cri.RuntimeReady], true)
		equal(t, "NetworkReady", ready[cri.NetworkReady], true)
	})
	t.Run("takes a pod range", func(t *testing.T) {
		req := &cri.UpdateRuntimeConfigRequest{RuntimeConfig: &cri.RuntimeConfig{}}
		if _, err := s.runtime.UpdateRuntimeConfig(call(t), req); err != nil {
			t.Errorf("UpdateRuntimeConfig: %v", err)
		}
	})
}
