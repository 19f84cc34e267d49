//go:build attack

package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a container does to files that others take their variables from.

// reads gives a container the variable A of a file in the volume of node.Scratch. Without the file it has none.
func reads(c corev1.Container, path string) corev1.Container {
	optional := true
	c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{
		VolumeName: "v", Path: path, Key: "A", Optional: &optional,
	}}}}
	return c
}

// A container exchanges a file of variables and a link to the node all the time, while others start with it.
func TestFileOfVariablesThatIsExchanged(t *testing.T) {
	aim := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(aim, "who"), []byte("A='node'\n"), 0o600))
	attack{
		begin: func(g *target) {
			always := corev1.ContainerRestartPolicyAlways
			swap := plant("echo \"A='volume'\" >f && ln -s " + aim + "/who l && " +
				"while :; do mv f x; mv l f; mv f l; mv x f; done")
			swap.Name, swap.RestartPolicy = "swap", &always
			g.put(node.Pod("attacker", node.Image, node.Idle, scratch, func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{swap}
				for i := range victims {
					p.Spec.InitContainers = append(p.Spec.InitContainers, reads(node.Shell(fmt.Sprintf("victim-%d", i),
						node.Image, "[ \"$A\" != node ] || echo escaped >/dev/termination-log"), "f"))
				}
			}))
			p := g.await("attacker", "to start all its containers, or to escape", func(p *corev1.Pod) bool {
				return node.Ready(p) || len(escaped(p)) > 0
			})
			if names := escaped(p); len(names) > 0 {
				g.Fatalf("containers %v have variables of what is outside the volume", names)
			}
			g.untouched(aim)
		},
	}.run(t)
}

// Files that block their reader, act, never end, or are the node's.
func TestHostileFilesOfVariables(t *testing.T) {
	refused := []string{"fifo", "device", "huge", "long", "dir", "loop"}
	missing := []string{"node", "up", "proc/mem"} // links that lead nowhere within the volume
	aim := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(aim, "who"), []byte("A='node'\n"), 0o600))
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, node.Idle, scratch, func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{plant("mkfifo fifo && mknod device c 1 5 && mkdir dir proc && " +
					"ln -s /proc/self/mem proc/mem && dd if=/dev/zero of=huge bs=1M seek=4096 count=1 2>/dev/null && " +
					"dd if=/dev/zero of=long bs=1M count=1 2>/dev/null && ln -s " + aim + "/who node && " +
					"ln -s " + strings.Repeat("../", 20) + aim[1:] + "/who up && ln -s loop loop")}
				p.Spec.Containers = nil
				for i, path := range refused {
					p.Spec.Containers = append(p.Spec.Containers,
						reads(node.Shell(fmt.Sprintf("refused-%d", i), node.Image, node.Idle), path))
				}
				for i, path := range missing {
					p.Spec.Containers = append(p.Spec.Containers, reads(node.Shell(fmt.Sprintf("missing-%d", i), node.Image,
						"[ \"$A\" != node ] && "+node.Idle), path))
				}
			}))
		},
		check: func(g *target) {
			g.await("attacker", "refused", func(p *corev1.Pod) bool {
				running := 0
				for _, s := range p.Status.ContainerStatuses {
					if s.State.Running != nil && s.RestartCount == 0 {
						running++
					}
				}
				return running == len(missing) && waiting(p, "refused-") == len(refused)
			})
			g.untouched(aim)
		},
	}.run(t)
}
