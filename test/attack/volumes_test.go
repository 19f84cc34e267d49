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

// What a container does to its volumes while others start.

// victims is how many containers start while another one exchanges what they mount.
const victims = 8

// exchanges is how often a container exchanges a file and a FIFO while the victims start.
const exchanges = 3000

// mounts returns a change of a container: it mounts a path of the volume of node.Scratch at /mnt.
func mounts(c corev1.Container, path string) corev1.Container {
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/mnt", SubPath: path}}
	return c
}

// scratch is node.Scratch without the mounts.
func scratch(p *corev1.Pod) {
	node.Scratch(p)
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = nil
	}
}

// plant returns an init container that runs a script in the whole volume.
func plant(script string) corev1.Container {
	c := node.Shell("plant", node.Image, "cd /v && "+script)
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	return c
}

// outside is a directory of the node with a file that says so.
func outside(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "who"), []byte("node\n"), 0o644))
	must.OK(t, os.Chmod(dir, 0o755))
	return dir
}

// untouched checks that a directory of the node has what outside left in it.
func (g *target) untouched(dir string) {
	g.Helper()
	entries, err := os.ReadDir(dir)
	must.OK(g.T, err)
	if len(entries) != 1 || entries[0].Name() != "who" {
		g.Errorf("the directory of the node has %v", entries)
	}
}

// CVE-2021-25741: a container exchanges a directory and a link to the node all the time, while others mount a subPath
// that goes through it.
func TestSubPathThatIsExchanged(t *testing.T) {
	aim := outside(t)
	attack{
		begin: func(g *target) {
			always := corev1.ContainerRestartPolicyAlways
			swap := plant("mkdir -p d/new && echo volume >d/who && ln -s " + aim + " l && " +
				"while :; do mv d x; mv l d; mv d l; mv x d; done")
			swap.Name, swap.RestartPolicy = "swap", &always
			g.put(node.Pod("attacker", node.Image, node.Idle, scratch, func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{swap}
				for i := range victims {
					path := "d"
					if i%4 == 3 {
						path = fmt.Sprintf("d/new-%d/deep", i) // created while the links change
					}
					victim := node.Shell(fmt.Sprintf("victim-%d", i), node.Image,
						"! grep -q node /mnt/who || echo escaped >/dev/termination-log")
					p.Spec.InitContainers = append(p.Spec.InitContainers, mounts(victim, path))
				}
			}))
			p := g.await("attacker", "to start all its containers, or to escape", func(p *corev1.Pod) bool {
				return node.Ready(p) || len(escaped(p)) > 0
			})
			if names := escaped(p); len(names) > 0 {
				g.Fatalf("containers %v have mounted what is outside the volume", names)
			}
			g.untouched(aim)
		},
	}.run(t)
}

// escaped returns the init containers that report that they see the node's file.
func escaped(p *corev1.Pod) (names []string) {
	for _, s := range p.Status.InitContainerStatuses {
		if s.State.Terminated != nil && s.State.Terminated.Message != "" {
			names = append(names, s.Name)
		}
	}
	return names
}

// CVE-2017-1002101: links that lead out of the volume, planted before others mount them.
func TestLinksOutOfAVolumeAsSubPaths(t *testing.T) {
	aim := outside(t)
	refused := []string{
		"root/etc", "node", "node/who", "node/new/deep", "up", "proc/etc", "dotdot", "chain/who", "dangling",
	}
	attack{
		begin: func(g *target) {
			up := strings.Repeat("../", 20)
			g.put(node.Pod("attacker", node.Image, node.Idle, scratch, func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{plant("mkdir dir && echo volume >dir/who && ln -s dir inside && " +
					"ln -s / root && ln -s " + aim + " node && ln -s " + up + aim[1:] + " up && ln -s /proc/self/root proc && " +
					"ln -s .. dotdot && ln -s node chain && ln -s " + aim + "/none dangling")}
				p.Spec.Containers = []corev1.Container{mounts(node.Shell("inside", node.Image,
					"grep volume /mnt/who && "+node.Idle), "inside")}
				for i, path := range refused {
					p.Spec.Containers = append(p.Spec.Containers,
						mounts(node.Shell(fmt.Sprintf("refused-%d", i), node.Image, node.Idle), path))
				}
			}))
			g.await("attacker", "refused", func(p *corev1.Pod) bool {
				return p.Status.ContainerStatuses != nil && node.Container(p, "inside").State.Running != nil &&
					waiting(p, "refused-") == len(refused)
			})
		},
		restart: true,
		check: func(g *target) {
			p := g.await("attacker", "refused", func(p *corev1.Pod) bool { return waiting(p, "refused-") == len(refused) })
			for i, path := range refused {
				w := node.Container(p, fmt.Sprintf("refused-%d", i)).State.Waiting
				if !strings.Contains(w.Message, `volumeMount "v" of container`) || strings.Contains(w.Message, aim) {
					g.Errorf("subPath %s: %s", path, w.Message)
				}
			}
			g.untouched(aim)
		},
	}.run(t)
}

// waiting returns how many containers whose names begin with prefix cannot be created.
func waiting(p *corev1.Pod, prefix string) (n int) {
	for _, s := range p.Status.ContainerStatuses {
		if strings.HasPrefix(s.Name, prefix) && s.State.Waiting != nil &&
			s.State.Waiting.Reason == "CreateContainerConfigError" {
			n++
		}
	}
	return n
}

// A FIFO blocks a caller that opens it, and a device acts: the agent opens neither, and the container gets no access to
// the device by it.
func TestFIFOAndDeviceAsSubPaths(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, node.Idle, scratch, func(p *corev1.Pod) {
				// 1 11 is the kernel's log, which no container may read.
				p.Spec.InitContainers = []corev1.Container{plant("mkfifo fifo && mknod device c 1 11")}
				p.Spec.Containers = []corev1.Container{
					mounts(node.Shell("fifo", node.Image, "test -p /mnt && "+node.Idle), "fifo"),
					mounts(node.Shell("device", node.Image,
						"test -c /mnt && ! dd if=/mnt of=/dev/null bs=1 count=1 && "+node.Idle), "device"),
				}
			}))
			g.await("attacker", "ready", node.Ready)
		},
		restart: true,
		check:   func(g *target) { g.await("attacker", "ready", node.Ready) },
	}.run(t)
}

// A container moves the directory that it mounts by subPath away, and a link to the node into its place. It never gets
// the node's, and it gets a new directory of this name at its next start.
func TestDirectoryOfASubPathIsReplaced(t *testing.T) {
	aim := outside(t)
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, node.Idle, node.Scratch, func(p *corev1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, mounts(node.Shell("victim", node.Image,
					"grep node /mnt/who >/dev/termination-log; cat /mnt/new >>/dev/termination-log; "+node.Idle), "d"))
			}))
			p := g.await("attacker", "ready", node.Ready)
			dir := filepath.Join(g.Root, "pods", string(p.UID), "volumes/kubernetes.io~empty-dir/v")
			must.OK(t, errors.Join(os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "old")),
				os.Symlink(aim, filepath.Join(dir, "d"))))
			g.endVictim(p)
			g.await("attacker", "refused", func(p *corev1.Pod) bool { return waiting(p, "victim") == 1 })
			must.OK(t, errors.Join(os.Remove(filepath.Join(dir, "d")), os.Mkdir(filepath.Join(dir, "d"), 0o777),
				os.WriteFile(filepath.Join(dir, "d/new"), []byte("new"), 0o644)))
			p = g.await("attacker", "ready", node.Ready)
			g.endVictim(p)
		},
		check: func(g *target) {
			p := g.await("attacker", "restarted", func(p *corev1.Pod) bool {
				last := node.Container(p, "victim").LastTerminationState.Terminated
				return last != nil && last.Message != ""
			})
			if m := node.Container(p, "victim").LastTerminationState.Terminated.Message; m != "new" {
				g.Errorf("the container saw %q", m)
			}
			g.untouched(aim)
		},
	}.run(t)
}

// endVictim ends the process of the container "victim".
func (g *target) endVictim(p *corev1.Pod) {
	g.Helper()
	s, err := setup.Runtime.Container(node.BareID(node.Container(p, "victim").ContainerID))
	must.OK(g.T, err)
	before := s.GetMetadata().GetAttempt()
	setup.Runtime.Exec(g.T, s.GetId(), "sh", "-c", "kill -9 -1")
	g.await("attacker", "ended", func(p *corev1.Pod) bool {
		return node.Container(p, "victim").State.Running == nil || node.Container(p, "victim").RestartCount > int32(before)
	})
}

// A container that may write the directory above a hostPath exchanges a file and a FIFO there, while pods with a typed
// hostPath start. A caller that opens the FIFO waits for good. The exchanges end after a count, with the file in
// place: whatever a victim met before (nothing, the FIFO, or the directory that containerd makes where it finds
// nothing), its next try sets the volume up.
func TestHostPathThatIsExchangedWithAFIFO(t *testing.T) {
	dir := t.TempDir()
	attack{
		begin: func(g *target) {
			must.OK(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600))
			must.OK(t, os.Link(filepath.Join(dir, "plain"), filepath.Join(dir, "file")))
			must.OK(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
			at := func(name, path string, kind corev1.HostPathType) func(*corev1.Pod) {
				return func(p *corev1.Pod) {
					p.Spec.Volumes = []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{
						HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}}
					p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: name, MountPath: "/h"}}
				}
			}
			g.put(node.Pod("attacker", node.Image, fmt.Sprintf("cd /h; place() { ln $1 x; mv x file; }; i=0; "+
				"while [ $i -lt %d ]; do i=$((i+1)); rm -rf file x; place fifo; place plain; done; "+
				"until [ -f file ]; do rm -rf file x; place plain; done; sleep 100000", exchanges),
				at("h", dir, corev1.HostPathDirectory)))
			g.await("attacker", "ready", node.Ready)
			for i := range victims {
				g.put(node.Pod(fmt.Sprintf("victim-%d", i), node.Image, node.Idle,
					at("f", filepath.Join(dir, "file"), corev1.HostPathFileOrCreate)))
			}
			for i := range victims {
				// The runtime may not find the file, which is the victim's matter: its volume is set up by then.
				g.await(fmt.Sprintf("victim-%d", i), "past its volumes", func(p *corev1.Pod) bool {
					s := node.Container(p, "main")
					return s.State.Running != nil || s.RestartCount > 0 ||
						s.State.Waiting != nil && s.State.Waiting.Reason == "RunContainerError"
				})
			}
		},
	}.run(t)
}

// CVE-2017-1002102: a container replaces the link to the contents of its ConfigMap, so that the next update or the
// removal of the volume would write or delete files of the node. The volume's mount is read-only, and so are its
// subPath mounts.
func TestContentsOfAConfigMapCannotBeReplaced(t *testing.T) {
	aim, objects := outside(t), t.TempDir()
	write := func(text string) {
		file := filepath.Join(objects, "conf.yaml")
		must.OK(t, os.WriteFile(file+".new", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"+
			"data: {key: "+text+"}\n"), 0o600))
		must.OK(t, os.Rename(file+".new", file))
	}
	write("before")
	conf := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}}}
	}
	attack{
		flags: []string{"--objects-path", objects},
		// The directory is watched from the start on, and for a minute after its last user.
		prepare: func(g *target) { g.put(node.Pod("reader", node.Image, node.Idle, conf)) },
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, "for at in /c /s; do ln -sfn "+aim+" $at/..data; ln -s "+aim+" $at/x; "+
				"rm -rf $at/..data $at/key; mv $at/..data $at/y; mount -o remount,rw $at; done 2>/dev/null; "+
				"until grep after /c/key >/dev/termination-log; do sleep 0.1; done; ls -A /c >>/dev/termination-log; exit 1",
				conf, func(p *corev1.Pod) {
					p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
						{Name: "c", MountPath: "/c"}, {Name: "c", MountPath: "/s", SubPath: "..data"}}
				}))
			g.await("attacker", "ready", node.Ready)
			write("after")
			g.await("attacker", "restarted", func(p *corev1.Pod) bool { return node.Container(p, "main").RestartCount > 0 })
		},
		check: func(g *target) {
			p := g.await("attacker", "ended", func(p *corev1.Pod) bool {
				return node.Container(p, "main").LastTerminationState.Terminated != nil
			})
			m := node.Container(p, "main").LastTerminationState.Terminated.Message
			if !strings.HasPrefix(m, "after") || strings.Contains(m, "\nx\n") || !strings.Contains(m, "..data") {
				g.Errorf("the container saw %q", m)
			}
		},
		end: func(g *target) { g.untouched(aim) },
	}.run(t)
}
