//go:build reports

package reports

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/node"
)

// Bytes of a Secret that are not UTF-8 (kubernetes/kubernetes#139132) reach a container as they are, or it waits with a
// message that names the variable, and starts when the Secret is text. They never become others.
func TestBytesOfASecretThatAreNoText(t *testing.T) {
	t.Parallel()
	secret := core.LocalObjectReference{Name: "blob"}
	blob := core.EnvVar{Name: "BLOB", ValueFrom: &core.EnvVarSource{
		SecretKeyRef: &core.SecretKeySelector{LocalObjectReference: secret, Key: "BYTES"},
	}}
	const object = "{apiVersion: v1, kind: Secret, metadata: {name: blob}, "
	for name, set := range map[string]func(*core.Container){
		"variable": func(c *core.Container) { c.Env = []core.EnvVar{blob} },
		"all keys": func(c *core.Container) {
			c.EnvFrom = []core.EnvFromSource{{SecretRef: &core.SecretEnvSource{LocalObjectReference: secret}}}
		},
		"another variable": func(c *core.Container) { c.Env = []core.EnvVar{blob, {Name: "URL", Value: "a:$(BLOB)@b"}} },
		"argument":         func(c *core.Container) { c.Env, c.Args = []core.EnvVar{blob}, []string{"$(BLOB)"} },
		"path": func(c *core.Container) {
			c.Env = []core.EnvVar{blob}
			c.VolumeMounts = []core.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: "$(BLOB)"}}
		},
	} {
		for _, data := range []string{"//5B", "YQBi"} { // ff fe 41, and a NUL between letters
			t.Run(name+" "+data, func(t *testing.T) {
				ofAPI(t, func(p *place) {
					p.apply(object + "data: {BYTES: " + data + "}}")
					p.pod(pod("web", node.Idle, node.Scratch, func(p *core.Pod) { set(&p.Spec.Containers[0]) }))
					message := p.waits("web", "main", "CreateContainerConfigError")
					if !strings.Contains(message, "BLOB") && !strings.Contains(message, "BYTES") {
						p.Errorf("the message names no variable: %s", message)
					}
					p.apply(object + "stringData: {BYTES: text}}")
					p.ready("web")
				})
			})
		}
	}
	t.Run("volume", func(t *testing.T) {
		ofAPI(t, func(p *place) {
			p.apply(object + "data: {BYTES: //5B}}")
			p.pod(pod("web", node.Idle, func(p *core.Pod) {
				p.Spec.Volumes = []core.Volume{{Name: "blob", VolumeSource: core.VolumeSource{
					Secret: &core.SecretVolumeSource{SecretName: "blob"},
				}}}
				p.Spec.Containers[0].VolumeMounts = []core.VolumeMount{{Name: "blob", MountPath: "/blob"}}
			}))
			p.ready("web")
			if got := strings.TrimSpace(p.exec("web", "od", "-An", "-tx1", "/blob/BYTES")); got != "ff fe 41" {
				p.Errorf("the file has %q", got)
			}
		})
	})
}
