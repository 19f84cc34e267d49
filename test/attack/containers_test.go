//go:build attack

package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a container does to its own files, processes and output.

func TestHostsFileOfATebibyte(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, node.Idle, func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{node.Shell("init", node.Image, "truncate -s 1099511627776 /etc/hosts")}
			}))
			g.await("attacker", "its init container to end", func(p *corev1.Pod) bool {
				return node.Container(p, "init").State.Terminated != nil
			})
		},
		restart: true,
		check:   func(g *target) { g.await("attacker", "ready", node.Ready) },
	}.run(t)
}

func TestTerminationMessageOfATebibyte(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, "truncate -s 1099511627776 /dev/termination-log; exit 1"))
			g.await("attacker", "restarted", func(p *corev1.Pod) bool { return node.Container(p, "main").RestartCount > 0 })
		},
		restart: true,
	}.run(t)
}

func TestProcessThatCallsItselfKubelet(t *testing.T) {
	attack{
		begin: func(g *target) {
			// The name, and a command line as a kubelet's with the agent's own endpoint, of root.
			script := "printf kubelet >/proc/self/comm; " + node.Idle
			g.put(node.Pod("attacker", node.Image, script, func(p *corev1.Pod) {
				p.Spec.Containers[0].Args = []string{"--container-runtime-endpoint=" + g.Endpoint, "--config=/fifo"}
				p.Spec.HostPID = true
			}))
			g.await("attacker", "ready", node.Ready)
		},
		restart: true,
	}.run(t)
}

// treeDepth is the depth of the tree that a container leaves in its volume. A removal that holds a descriptor and a
// buffer for each level takes 400 MiB.
const treeDepth = 50_000

func TestDeepTreeInAVolume(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, node.Idle, node.Scratch))
			p := g.await("attacker", "ready", node.Ready)
			must.OK(t, dig(filepath.Join(g.Root, "pods", string(p.UID), "volumes/kubernetes.io~empty-dir/v"), treeDepth))
			g.Remove("attacker.yaml")
		},
	}.run(t)
}

// dig creates a tree of one branch.
func dig(dir string, depth int) error {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range depth {
		if err != nil {
			return err
		}
		err = unix.Mkdirat(fd, "d", 0o755)
		next, failed := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		err = errors.Join(err, failed, unix.Close(fd))
		fd = next
	}
	return errors.Join(err, unix.Close(fd))
}

func TestProbesThatPrintWithoutEnd(t *testing.T) {
	flood := &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
			Command: []string{"head", "-c", "15000000", "/dev/zero"},
		}},
		PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 1000,
	}
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, node.Idle, func(p *corev1.Pod) {
				p.Spec.Containers = nil
				for i := range 4 {
					c := node.Shell(fmt.Sprintf("main-%d", i), node.Image, node.Idle)
					c.LivenessProbe, c.ReadinessProbe = flood, flood
					p.Spec.Containers = append(p.Spec.Containers, c)
				}
			}))
			g.await("attacker", "ready", node.Ready)
		},
	}.run(t)
}

func TestEscapesInATerminationMessage(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, `printf '\033[2J\033]0;owned\007' >/dev/termination-log; exit 1`))
			g.await("attacker", "restarted", func(p *corev1.Pod) bool { return node.Container(p, "main").RestartCount > 0 })
		},
		check: func(g *target) {
			for _, args := range [][]string{
				{"pods"}, {"pod", "attacker"}, {"pod", "attacker", "-o", "yaml"}, {"observe", "--from", "1", "--no-follow"},
			} {
				out, errs, code := g.CLI(args...)
				if code != 0 || strings.ContainsAny(out+errs, "\x1b\x07") {
					g.Errorf("`journalet %s` ended with %d and printed %.2000q", strings.Join(args, " "), code, out+errs)
				}
			}
		},
	}.run(t)
}

// put writes a pod's manifest.
func (g *target) put(p *corev1.Pod) {
	g.Helper()
	g.Put(p.Name+".yaml", node.Manifest(p))
}

// await waits until a pod is as wanted, and returns it.
func (g *target) await(name, what string, wanted func(*corev1.Pod) bool) (found *corev1.Pod) {
	g.Helper()
	node.Eventually(g.T, settle, name+" "+what, func() error {
		pods, err := g.Pods()
		if err != nil {
			return err
		}
		for i := range pods {
			if found = &pods[i]; g.ShortName(found.Name) == name && wanted(found) {
				return nil
			}
		}
		return errors.New("not yet")
	})
	return found
}

// write writes a file of the manifest directory, however long, without a copy in memory.
func (g *target) write(name string, parts ...string) {
	g.Helper()
	f, err := os.Create(filepath.Join(g.Dir, "part-"+name))
	must.OK(g.T, err)
	for _, p := range parts {
		_, err = f.WriteString(p)
		must.OK(g.T, err)
	}
	must.OK(g.T, errors.Join(f.Close(), os.Rename(f.Name(), filepath.Join(g.Manifests, name))))
}
