//go:build reports

package reports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// shares is a pod with a volume at /cache whose mounts are seen on the node, too.
func shares(name string, outer core.VolumeSource, inner map[string]core.VolumeSource) *core.Pod {
	return pod(name, node.Idle, func(p *core.Pod) {
		both, privileged := core.MountPropagationBidirectional, true
		main := &p.Spec.Containers[0]
		main.SecurityContext = &core.SecurityContext{Privileged: &privileged}
		main.TerminationMessagePath = "/cache/log.txt"
		p.Spec.Volumes = append(p.Spec.Volumes, core.Volume{Name: "outer", VolumeSource: outer})
		main.VolumeMounts = append(main.VolumeMounts,
			core.VolumeMount{Name: "outer", MountPath: "/cache", MountPropagation: &both})
		for name, source := range inner {
			p.Spec.Volumes = append(p.Spec.Volumes, core.Volume{Name: name, VolumeSource: source})
			main.VolumeMounts = append(main.VolumeMounts, core.VolumeMount{Name: name, MountPath: "/cache/" + name},
				core.VolumeMount{Name: name, MountPath: "/cache/part-" + name, SubPath: "part"})
		}
	})
}

// What the runtime has mounted in a volume whose mounts are propagated to the node goes with its pod
// (kubernetes/kubernetes#115054).
func TestMountsInAVolumeThatPropagatesThemGoWithTheirPod(t *testing.T) {
	everywhere(t, func(p *place) {
		shared, err := os.MkdirTemp(filepath.Dir(p.manifests()), "host")
		must.OK(p.T, err)
		disk := core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}
		memory := core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{Medium: core.StorageMediumMemory}}
		names := core.VolumeSource{DownwardAPI: &core.DownwardAPIVolumeSource{Items: []core.DownwardAPIVolumeFile{
			{Path: "part/name", FieldRef: &core.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}}
		host := core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: shared}}
		pods := []*core.Pod{
			shares("message", disk, nil),
			shares("volumes", disk, map[string]core.VolumeSource{"disk": disk, "memory": memory, "names": names}),
			shares("inmemory", memory, map[string]core.VolumeSource{"disk": disk, "memory": memory}),
			shares("onhost", host, map[string]core.VolumeSource{"disk": disk}),
		}
		uids := map[string]string{}
		for _, pod := range pods {
			p.pod(pod)
		}
		for _, pod := range pods {
			uids[pod.Name] = string(p.ready(pod.Name).UID)
			if p.static {
				uids[pod.Name] = p.get(pod.Name).Annotations["kubernetes.io/config.hash"]
			}
		}
		p.end("volumes") // each of its mounts comes twice
		p.await("volumes", "restarted", func(pod *core.Pod) bool {
			return node.Ready(pod) && node.Container(pod, "main").RestartCount == 1
		})
		for _, pod := range pods {
			p.remove(pod.Name)
		}
		for name, uid := range uids {
			p.until("nothing to be left of pod "+name, func() error { return p.leftOf(uid) })
		}
	})
}

// leftOf returns an error while the node has a directory or a mount of a pod.
func (p *place) leftOf(uid string) (err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, uid) {
			err = errors.Join(err, fmt.Errorf("a mount: %s", line))
		}
	}
	if _, e := os.Stat(filepath.Join(p.root(), "pods", uid)); e == nil {
		err = errors.Join(err, errors.New("its directory"))
	}
	return err
}
