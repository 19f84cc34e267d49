package pod

import "testing"

func TestAnnotationsForTheRuntimeAreRecognized(t *testing.T) {
	for key, want := range map[string]bool{
		"io.containerd.cri.runtime-handler":                  true,
		"io.katacontainers.config.hypervisor.default_memory": true,
		"dev.gvisor.spec.mount.data.type":                    true,
		"run.oci.keep_original_groups":                       true,
		"userns-mode.crio.io":                                true,
		"io.kubernetes.cri-o.UnifiedCgroup/main":             true,

		"kubernetes.io/config.hash":                           false,
		"kubectl.kubernetes.io/restartedAt":                   false,
		"cni.projectcalico.org/podIP":                         false,
		"prometheus.io/scrape":                                false,
		"checksum/config.yaml":                                false,
		"container.apparmor.security.beta.kubernetes.io/main": false,
		"note": false,
		"":     false,
	} {
		if got := forRuntime(key); got != want {
			t.Errorf("%q: %v, want %v", key, got, want)
		}
	}
}
