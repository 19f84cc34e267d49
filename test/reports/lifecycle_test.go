//go:build reports

package reports

import (
	"errors"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// endless is a command that no test waits for.
const endless = "sleep 1000000"

func shell(script string) *core.ExecAction {
	return &core.ExecAction{Command: []string{"sh", "-c", script}}
}

func grace(seconds int64) func(*core.Pod) {
	return func(p *core.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func preStop(script string) func(*core.Pod) {
	return func(p *core.Pod) {
		p.Spec.Containers[0].Lifecycle = &core.Lifecycle{PreStop: &core.LifecycleHandler{Exec: shell(script)}}
	}
}

// No hook keeps a pod that has to end (kubernetes/kubernetes#115817, #116753, #116032, #40036).
func TestHooksDoNotKeepAPodThatEnds(t *testing.T) {
	everywhere(t, func(p *place) {
		names := []string{"long", "ignores", "exits", "starting"}
		p.pod(pod("long", node.Idle, preStop(endless)))
		p.pod(pod("ignores", "trap '' TERM; while :; do sleep 1; done", preStop(endless)))
		p.pod(pod("exits", node.Idle, grace(3600), preStop("kill -TERM 1; "+endless)))
		p.pod(pod("starting", node.Idle, func(p *core.Pod) {
			hook := &core.LifecycleHandler{Exec: shell("touch /tmp/begun; " + endless)}
			p.Spec.Containers[0].Lifecycle = &core.Lifecycle{PostStart: hook}
		}))
		for _, name := range names[:3] {
			p.ready(name)
		}
		p.until("the postStart hook to run", func() error { return p.runs("starting") })
		for _, name := range names {
			p.remove(name)
		}
		for _, name := range names {
			p.until("no container of "+name+" to be left", func() error { return p.left(name) })
		}
	})
}

// runs returns an error while the runtime has no container of a pod: its status may say nothing before a hook ends.
func (p *place) runs(name string) error {
	if p.left(name) == nil {
		return errors.New("the runtime has none")
	}
	return nil
}

// A preStop hook without an end does not keep a pod that is deleted by force (kubernetes/kubernetes#127339).
func TestForcedDeletionEndsAPreStopHook(t *testing.T) {
	ofAPI(t, func(p *place) {
		p.pod(pod("web", node.Idle, grace(3600), preStop(endless)))
		p.ready("web")
		p.remove("web")
		p.kubectl("", "delete", "pod", "web", "--force", "--grace-period=0", "--wait=false")
		p.until("no container to be left", func() error { return p.left("web") })
	})
}

// A pod that ends is not restarted by its probe, and has succeeded if it exits with 0
// (kubernetes/kubernetes#107473, kubernetes/kubernetes#118310).
func TestPodThatEndsIsNotRestartedByItsProbe(t *testing.T) {
	ofAPI(t, func(p *place) {
		p.pod(pod("web", "trap 'touch /tmp/dying; sleep 8; exit 0' TERM; "+endless+" & wait", grace(60),
			func(p *core.Pod) {
				p.Finalizers = []string{"example.com/kept"}
				p.Spec.Containers[0].LivenessProbe = &core.Probe{
					ProbeHandler:  core.ProbeHandler{Exec: shell("test ! -e /tmp/dying")},
					PeriodSeconds: 1, FailureThreshold: 1,
				}
			}))
		p.ready("web")
		p.remove("web")
		ended := p.ended("web")
		status := node.Container(ended, "main")
		_, err := p.client.CoreV1().Pods(p.namespace).Patch(p.Context(), "web", types.JSONPatchType,
			[]byte(`[{"op": "remove", "path": "/metadata/finalizers"}]`), meta.PatchOptions{})
		must.OK(p.T, err)
		if ended.Status.Phase != core.PodSucceeded || status.RestartCount != 0 || status.State.Terminated.ExitCode != 0 {
			p.Errorf("phase %s, container %v", ended.Status.Phase, status)
		}
	})
}

// A probe's own grace period counts for the restarts it asks for (kubernetes/kubernetes#64715).
func TestGracePeriodOfAProbe(t *testing.T) {
	ofAPI(t, func(p *place) {
		one := int64(1)
		web := stubborn("web")
		web.Spec.Containers[0].LivenessProbe = &core.Probe{
			ProbeHandler:  core.ProbeHandler{Exec: shell("false")},
			PeriodSeconds: 1, FailureThreshold: 1, TerminationGracePeriodSeconds: &one,
		}
		p.pod(web)
		p.await("web", "restarted", func(pod *core.Pod) bool { return node.Container(pod, "main").RestartCount > 0 })
		p.kubectl("", "delete", "pod", "web", "--force", "--grace-period=0", "--wait=false")
	})
}

// sidecar adds a container that is restarted whatever it ends with, and that has started once a file is there.
func sidecar(script string) func(*core.Pod) {
	return func(p *core.Pod) {
		always := core.ContainerRestartPolicyAlways
		side := node.Shell("side", node.Image, script)
		side.RestartPolicy = &always
		side.StartupProbe = &core.Probe{
			ProbeHandler: core.ProbeHandler{Exec: shell("test -e /v/started")}, PeriodSeconds: 1, FailureThreshold: 2,
		}
		node.Scratch(p)
		side.VolumeMounts = p.Spec.Containers[0].VolumeMounts
		p.Spec.InitContainers = append(p.Spec.InitContainers, side)
	}
}

// A job ends as its main container does, beside a sidecar whose first start fails (kubernetes/kubernetes#132826) and
// beside a sidecar that ignores SIGTERM (kubernetes/kubectl#1739).
func TestJobBesideASidecar(t *testing.T) {
	everywhere(t, func(p *place) {
		never := node.Restarts(core.RestartPolicyNever)
		p.pod(pod("second", "exit 0", never, sidecar(
			"test -e /v/first && touch /v/started; touch /v/first; "+node.Idle)))
		p.pod(pod("ignores", "exit 0", never, sidecar("touch /v/started; trap '' TERM; while :; do sleep 1; done")))
		for _, name := range []string{"second", "ignores"} {
			if phase := p.ended(name).Status.Phase; phase != core.PodSucceeded {
				p.Errorf("pod %s: %s", name, phase)
			}
		}
	})
}
