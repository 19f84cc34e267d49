//go:build reports

package reports

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// ends is a script that ends when somebody removes a file that it has created.
const ends = "touch /ctl/stay; while [ -e /ctl/stay ]; do sleep 1; done; exit 1"

// hostPath returns a volume of the node.
func hostPath(name, path string, kind core.HostPathType) core.Volume {
	return core.Volume{Name: name, VolumeSource: core.VolumeSource{
		HostPath: &core.HostPathVolumeSource{Path: path, Type: &kind},
	}}
}

// A hostPath with a type that is gone when its container starts again is not replaced by a directory: the container
// waits until it is back (kubernetes/kubernetes#128814). The same holds for a subPath that was a file.
func TestHostPathIsGoneWhenItsContainerStartsAgain(t *testing.T) {
	socket := func(t *testing.T, path string) {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		must.OK(t, err)
		l.SetUnlinkOnClose(false)
		must.OK(t, l.Close())
	}
	file := func(t *testing.T, path string) { t.Helper(); must.OK(t, os.WriteFile(path, nil, 0o600)) }
	dir := func(t *testing.T, path string) { t.Helper(); must.OK(t, os.Mkdir(path, 0o700)) }
	for name, c := range map[string]struct {
		kind    core.HostPathType
		subPath bool
		create  func(*testing.T, string)
	}{
		"socket":    {core.HostPathSocket, false, socket},
		"file":      {core.HostPathFile, false, file},
		"directory": {core.HostPathDirectory, false, dir},
		"sub-path":  {core.HostPathDirectory, true, socket},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(p *place) {
				base := p.TempDir()
				source := filepath.Join(base, "source")
				c.create(p.T, source)
				mount := core.VolumeMount{Name: "source", MountPath: "/source"}
				volume := hostPath("source", source, c.kind)
				if c.subPath {
					mount.SubPath, volume = "source", hostPath("source", base, c.kind)
				}
				p.pod(pod("web", ends, func(pod *core.Pod) {
					pod.Spec.Containers[0].VolumeMounts = []core.VolumeMount{mount, {Name: "ctl", MountPath: "/ctl"}}
					pod.Spec.Volumes = []core.Volume{
						volume, hostPath("ctl", filepath.Join(base, "ctl"), core.HostPathDirectoryOrCreate),
					}
				}))
				p.ready("web")
				p.until("the script to have begun", func() error {
					_, err := os.Stat(filepath.Join(base, "ctl/stay"))
					return err
				})
				must.OK(p.T, os.RemoveAll(source))
				must.OK(p.T, os.Remove(filepath.Join(base, "ctl/stay")))
				message := p.waits("web", "main", "CreateContainerConfigError")
				if !strings.Contains(message, "source") {
					p.Errorf("the container waits with %q", message)
				}
				if _, err := os.Lstat(source); err == nil {
					p.Error("something is created in its place")
				}
				c.create(p.T, source)
				p.await("web", "ready again", func(pod *core.Pod) bool {
					return node.Ready(pod) && node.Container(pod, "main").RestartCount == 1
				})
			})
		})
	}
}

// A file is mounted in a volume that is read-only, in every order of the mounts (kubernetes/kubernetes#61545), and
// stays when the volume's contents change.
func TestFileIsMountedInAVolumeOfFiles(t *testing.T) {
	ofAPI(t, func(p *place) {
		p.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: base}, data: {base: base, both: hidden}}")
		p.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: extra}, data: {both: extra}}")
		p.pod(pod("web", node.Idle, func(pod *core.Pod) {
			config := func(name string) core.Volume {
				source := core.ConfigMapVolumeSource{LocalObjectReference: core.LocalObjectReference{Name: name}}
				return core.Volume{Name: name, VolumeSource: core.VolumeSource{ConfigMap: &source}}
			}
			pod.Spec.Volumes = []core.Volume{config("base"), config("extra"), {
				Name: "empty", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}},
			}}
			c := &pod.Spec.Containers[0]
			c.TerminationMessagePath = "/a/log/message"
			c.VolumeMounts = []core.VolumeMount{
				{Name: "extra", MountPath: "/a/dir/in/both", SubPath: "both"},
				{Name: "base", MountPath: "/a/dir"},
				{Name: "extra", MountPath: "/a/both", SubPath: "both"},
				{Name: "base", MountPath: "/a"},
				{Name: "empty", MountPath: "/empty", ReadOnly: true},
				{Name: "extra", MountPath: "/empty/x/both", SubPath: "both"},
				{Name: "base", MountPath: "/etc"},
			}
			side := c.DeepCopy()
			side.Name, side.TerminationMessagePath = "side", ""
			side.VolumeMounts = []core.VolumeMount{{Name: "base", MountPath: "/base"}}
			pod.Spec.Containers = append(pod.Spec.Containers, *side)
		}))
		p.ready("web")
		const all = "cat /a/dir/in/both /a/both /empty/x/both /a/base; grep -c localhost /etc/hosts"
		if out := p.exec("web", "sh", "-c", all); !strings.HasPrefix(out, "extraextraextrabase") {
			p.Errorf("the files are %q", out)
		}
		p.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: base}, data: {base: new, both: new, hosts: new}}")
		p.until("the new contents", func() error {
			if out := p.exec("web", "cat", "/a/base"); out != "new" {
				return &os.PathError{Op: "read " + out, Path: "/a/base", Err: os.ErrNotExist}
			}
			return nil
		})
		out := p.exec("web", "sh", "-c", all)
		if !strings.HasPrefix(out, "extraextraextranew") || strings.HasSuffix(out, "new0\n") {
			p.Errorf("then the files are %q", out)
		}
	})
}

// A file that would be mounted in a directory of the node, read-only and without a place for it, is not mounted: the
// message names both, and nothing is created on the node.
func TestFileIsMountedInADirectoryOfTheNode(t *testing.T) {
	everywhere(t, func(p *place) {
		base := p.TempDir()
		p.pod(pod("web", node.Idle, func(pod *core.Pod) {
			pod.Spec.Volumes = []core.Volume{hostPath("outer", base, core.HostPathDirectory), {
				Name: "inner", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}},
			}}
			pod.Spec.Containers[0].VolumeMounts = []core.VolumeMount{
				{Name: "outer", MountPath: "/outer", ReadOnly: true}, {Name: "inner", MountPath: "/outer/inner"},
			}
		}))
		message := p.waits("web", "main", "CreateContainerConfigError")
		for _, name := range []string{`"inner"`, "/outer/inner", `"outer"`} {
			if !strings.Contains(message, name) {
				p.Errorf("%s is not in %q", name, message)
			}
		}
		if all, err := os.ReadDir(base); err != nil || len(all) > 0 {
			p.Errorf("on the node there is %v, %v", all, err)
		}
		must.OK(p.T, os.Mkdir(filepath.Join(base, "inner"), 0o700))
		p.ready("web")
	})
}
