//go:build cluster

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/must"
)

// trusts has a pod wait for a trust bundle of a name, and follow the bundles of a signer by their labels.
func (n *ours) trusts(t *testing.T) {
	ca := n.kubectl(t, "", "get", "configmap", "kube-root-ca.crt", "-o", `jsonpath={.data.ca\.crt}`)
	bundle := func(name, signer string) {
		b := &certificates.ClusterTrustBundle{
			TypeMeta:   meta.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "ClusterTrustBundle"},
			ObjectMeta: meta.ObjectMeta{Name: name},
			Spec:       certificates.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: ca},
		}
		text, err := json.Marshal(b)
		must.OK(t, err)
		n.kubectl(t, string(text), "apply", "-f", "-")
	}
	source := func(s core.ClusterTrustBundleProjection) core.VolumeProjection {
		return core.VolumeProjection{ClusterTrustBundle: &s}
	}
	bundle("example.com:ca:1", "example.com/ca")
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "trusting"}, Spec: core.PodSpec{
		Containers: []core.Container{{
			Name: "c", Image: busybox, Command: []string{"sleep", "1000"},
			VolumeMounts: []core.VolumeMount{{Name: "trust", MountPath: "/trust"}},
		}},
		Volumes: []core.Volume{{Name: "trust", VolumeSource: core.VolumeSource{Projected: &core.ProjectedVolumeSource{
			Sources: []core.VolumeProjection{
				source(core.ClusterTrustBundleProjection{Name: new("late"), Path: "late"}),
				source(core.ClusterTrustBundleProjection{
					SignerName: new("example.com/ca"), LabelSelector: &meta.LabelSelector{}, Path: "all"}),
				source(core.ClusterTrustBundleProjection{
					SignerName: new("example.com/ca"), Path: "labeled", Optional: new(true),
					LabelSelector: &meta.LabelSelector{MatchLabels: map[string]string{"for": "web"}}}),
			},
		}}}},
	}}
	_, err := n.MustClient(t).CoreV1().Pods("default").Create(t.Context(), pod, meta.CreateOptions{})
	must.OK(t, err)
	eventually(t, func() error {
		out := n.kubectl(t, "", "get", "events", "--field-selector=involvedObject.name=trusting", "-o",
			"jsonpath={.items[*].message}")
		if !strings.Contains(out, `clustertrustbundle.certificates.k8s.io "late" not found`) {
			return fmt.Errorf("events: %s", out)
		}
		return nil
	})
	bundle("late", "")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/trusting", "--timeout=60s")
	has := func(file string, want int) {
		t.Helper()
		eventually(t, func() error {
			out, err := n.Command(t.Context(), "exec", "trusting", "--", "cat", "/trust/"+file).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", file, err, out)
			}
			if got := strings.Count(string(out), "BEGIN CERTIFICATE"); got != want {
				return fmt.Errorf("%s has %d certificates, want %d:\n%s", file, got, want, out)
			}
			return nil
		})
	}
	has("late", 1)
	has("all", 1)
	has("labeled", 0)
	n.kubectl(t, "", "label", "clustertrustbundle", "example.com:ca:1", "for=web")
	has("labeled", 1)
}
