//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// mountsBelow returns the lines of the mount table of a directory.
func mountsBelow(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(readFile(t, "/proc/self/mountinfo")) {
		if strings.Contains(line, " "+dir+"/") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// unmounts removes pods, and waits until none of their mounts is left.
func (a *agent) unmounts(pods ...string) {
	a.T.Helper()
	for _, name := range pods {
		a.Remove(name + ".yaml")
	}
	a.gone()
	eventually(a.T, settle, "no mount to be left", func() error {
		if left := mountsBelow(a.T, a.Root); left != "" {
			return fmt.Errorf("left are\n%s", left)
		}
		return nil
	})
}

func TestRestartOfTheAgentMountsNothingAgain(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	const pods, each = 3, 100
	var names []string
	for i := range pods {
		names = append(names, fmt.Sprintf("mounts%d", i))
		a.put(newPod(names[i], idle, func(p *corev1.Pod) {
			for j := range each {
				name := fmt.Sprintf("v%d", j)
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
					EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
				}})
				p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
					corev1.VolumeMount{Name: name, MountPath: "/v/" + name})
			}
		}))
	}
	a.start()
	a.pods("ready", allReady(pods))
	before := mountsBelow(t, a.Root)
	if n := strings.Count(before, "\n"); n != pods*each {
		t.Fatalf("%d mounts:\n%s", n, before)
	}
	prints := a.fingerprint()
	a.crash()
	a.pods("ready", allReady(pods))
	a.kept(prints, "the restart of the agent")
	if after := mountsBelow(t, a.Root); after != before {
		t.Errorf("the mount table is\n%s\nbefore\n%s", after, before)
	}
	a.unmounts(names...)
	a.Verified()
}
