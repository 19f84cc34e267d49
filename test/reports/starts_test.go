//go:build reports

package reports

import (
	"fmt"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/node"
)

// ofOneFile mounts one file of a ConfigMap by its subPath.
func ofOneFile(configMap string) func(*core.Pod) {
	return func(p *core.Pod) {
		p.Spec.Volumes = []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{ConfigMap: &core.ConfigMapVolumeSource{
			LocalObjectReference: core.LocalObjectReference{Name: configMap},
		}}}}
		p.Spec.Containers[0].VolumeMounts = []core.VolumeMount{{Name: "v", MountPath: "/etc/app.conf", SubPath: "app.conf"}}
	}
}

// A ConfigMap that changes without a pause fails no pod that mounts one file of it (kubernetes/kubernetes#127602), and
// the file can be mounted again after a change (kubernetes/kubernetes#68211).
func TestConfigMapChangesWhileAFileOfItIsMounted(t *testing.T) {
	ofAPI(t, func(p *place) {
		change := func(i int) {
			p.apply(fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, `+
				`"data": {"app.conf": "version %d"}}`, i))
		}
		change(0)
		p.pod(pod("again", "test -s /etc/app.conf && sleep 1; exit 1", ofOneFile("conf")))
		const pods = 12
		for i := range pods {
			p.pod(pod(fmt.Sprint("once-", i), "cat /etc/app.conf", ofOneFile("conf"), node.Restarts(core.RestartPolicyNever)))
		}
		changes, running := 0, pods
		for running > 0 {
			changes++
			change(changes)
			running = 0
			for i := range pods {
				switch found := p.get(fmt.Sprint("once-", i)); {
				case found == nil || found.Status.Phase == core.PodPending || found.Status.Phase == core.PodRunning:
					running++
				case found.Status.Phase == core.PodFailed:
					p.Fatalf("pod %s failed: %s", found.Name, found.Status.String())
				}
			}
		}
		p.await("again", "restarted", func(pod *core.Pod) bool { return node.Container(pod, "main").RestartCount >= 2 })
	})
}

// A pod that never restarts ends at once if its command is not in the image: Jobs count on that.
func TestCommandThatIsNotInTheImage(t *testing.T) {
	everywhere(t, func(p *place) {
		p.pod(pod("lost", "", node.Restarts(core.RestartPolicyNever), func(pod *core.Pod) {
			pod.Spec.Containers[0].Command = []string{"no-such-program"}
		}))
		ended := node.Container(p.ended("lost"), "main").State.Terminated
		if ended == nil || ended.Reason != "StartError" || ended.ExitCode != 128 {
			p.Errorf("it ended so: %v", ended)
		}
	})
}
