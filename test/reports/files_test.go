//go:build reports

package reports

import (
	"os"
	"path/filepath"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// A backup copy of a manifest beside it leaves the pod alone, and a later edit of the manifest counts
// (kubernetes/kubernetes#136962, kubernetes/kubeadm#2823).
func TestBackupCopyOfAManifest(t *testing.T) {
	ofFiles(t, func(p *place) {
		first, second := pod("web", node.Idle), pod("web", node.Idle)
		first.Labels, second.Labels = map[string]string{"edit": "first"}, map[string]string{"edit": "second"}
		second.Spec.Containers[0].Env = []core.EnvVar{{Name: "EDIT", Value: "second"}}
		p.pod(first)
		id := node.Container(p.ready("web"), "main").ContainerID
		file := filepath.Join(p.manifests(), p.namespace+"_web.yaml")
		text, err := os.ReadFile(file)
		must.OK(p.T, err)
		p.manifest("web.bak.yaml", string(text))
		// A pod that is added later is running: the copy has been read.
		p.pod(pod("later", node.Idle))
		p.ready("later")
		if now := node.Container(p.ready("web"), "main").ContainerID; now != id {
			p.Errorf("the copy replaced container %s by %s", id, now)
		}
		p.pod(second)
		p.await("web", "the edited one", func(pod *core.Pod) bool {
			return node.Ready(pod) && pod.Labels["edit"] == "second"
		})
		if out := p.exec("web", "sh", "-c", "echo $EDIT"); out != "second\n" {
			p.Errorf("EDIT is %q after the edit", out)
		}
	})
}
