//go:build reports

package reports

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/node"
)

// scratch adds an emptyDir at /v, and a path of it at /p.
func scratch(subPath string) func(*core.Pod) {
	return func(p *core.Pod) {
		node.Scratch(p)
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			core.VolumeMount{Name: "v", MountPath: "/p", SubPath: subPath})
		init := node.Shell("init", node.Image, "mkdir /v/dir; echo text > /v/file")
		init.VolumeMounts = []core.VolumeMount{{Name: "v", MountPath: "/v"}}
		p.Spec.InitContainers = append(p.Spec.InitContainers, init)
	}
}

// A subPath may be a file (kubernetes/kubernetes#61178), and a container may remove the directory of a subPath that it
// has mounted: the pod is removed all the same (kubernetes/kubernetes#139535).
func TestSubPathsOfContainers(t *testing.T) {
	everywhere(t, func(p *place) {
		p.pod(pod("file", "cat /p; "+node.Idle, scratch("file")))
		p.pod(pod("removed", "rm -rf /v/dir; "+node.Idle, scratch("dir")))
		uids := map[string]string{}
		for _, name := range []string{"file", "removed"} {
			ready := p.ready(name)
			if uids[name] = string(ready.UID); p.static {
				uids[name] = ready.Annotations["kubernetes.io/config.hash"]
			}
		}
		p.output("file", "main", "text")
		p.remove("removed")
		p.until("nothing to be left", func() error { return p.leftOf(uids["removed"]) })
	})
}

// A container starts again whose ConfigMap has changed since, also with a subPath of it
// (kubernetes/kubernetes#68211, #105472).
func TestRestartAfterAConfigMapChanged(t *testing.T) {
	ofAPI(t, func(p *place) {
		const object = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "TEXT"}}`
		p.apply(strings.Replace(object, "TEXT", "first", 1))
		p.pod(pod("web", "cat /p; echo; "+node.Idle, func(p *core.Pod) {
			source := &core.ConfigMapVolumeSource{LocalObjectReference: core.LocalObjectReference{Name: "conf"}}
			p.Spec.Volumes = []core.Volume{{Name: "conf", VolumeSource: core.VolumeSource{ConfigMap: source}}}
			p.Spec.Containers[0].VolumeMounts = []core.VolumeMount{
				{Name: "conf", MountPath: "/conf"}, {Name: "conf", MountPath: "/p", SubPath: "a"},
			}
		}))
		p.ready("web")
		p.output("web", "main", "first")
		p.apply(strings.Replace(object, "TEXT", "second", 1))
		p.until("the file to change", func() error {
			if out := p.exec("web", "cat", "/conf/a"); out != "second" {
				return errNot(out)
			}
			return nil
		})
		p.end("web")
		p.await("web", "restarted", func(pod *core.Pod) bool {
			return node.Ready(pod) && node.Container(pod, "main").RestartCount == 1
		})
		p.output("web", "main", "second")
	})
}

type errNot string

func (e errNot) Error() string { return "it is " + string(e) }

// A container that is another user, on a file system that it cannot write, has a termination message (pelagos#285); and
// an emptyDir in memory holds no more than its limit (kubernetes/kubernetes#63126).
func TestWhatAContainerMayWrite(t *testing.T) {
	everywhere(t, func(p *place) {
		user, yes, limit := int64(1234), true, resource.MustParse("1Mi")
		p.pod(pod("message", "echo -n words > /dev/termination-log; touch /x && echo more > /dev/termination-log; exit 0",
			node.Restarts(core.RestartPolicyNever), func(p *core.Pod) {
				p.Spec.Containers[0].SecurityContext = &core.SecurityContext{RunAsUser: &user, ReadOnlyRootFilesystem: &yes}
			}))
		p.pod(pod("memory", "head -c 2000000 /dev/zero > /v/f; echo wrote $(stat -c %s /v/f); "+node.Idle, node.Scratch,
			func(p *core.Pod) {
				p.Spec.Volumes[0].EmptyDir = &core.EmptyDirVolumeSource{Medium: core.StorageMediumMemory, SizeLimit: &limit}
			}))
		if state := node.Container(p.ended("message"), "main").State.Terminated; state.Message != "words" {
			p.Errorf("message %v", state)
		}
		p.ready("memory")
		if size := p.output("memory", "main", "wrote "); size != "1048576" {
			p.Errorf("the volume holds %s bytes", size)
		}
	})
}
