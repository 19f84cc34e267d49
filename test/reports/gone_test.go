//go:build reports

package reports

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

// stubborn is a pod that ignores SIGTERM, with a grace period that no test waits for.
func stubborn(name string) *core.Pod {
	return pod(name, "trap '' TERM; while :; do sleep 1; done", func(p *core.Pod) {
		grace := int64(3600)
		p.Spec.TerminationGracePeriodSeconds = &grace
	})
}

// A pod that was deleted by force while the agent was down ends as after any forced deletion, not after its own grace
// period, and nothing of it stays (kubernetes/kubernetes#135698).
func TestDeletedByForceWhileTheAgentIsDown(t *testing.T) {
	ofAPI(t, func(p *place) {
		p.pod(stubborn("web"))
		uid := string(p.ready("web").UID)
		p.down(p.T, func() {
			p.kubectl("", "delete", "pod", "web", "--force", "--grace-period=0", "--wait=false")
		})
		p.until("no container to be left", func() error { return p.left("web") })
		p.until("no directory and no mount to be left", func() error {
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err == nil && strings.Contains(string(mounts), uid) {
				err = errors.New("mounts are left")
			}
			if _, e := os.Stat(filepath.Join(p.root(), "pods", uid)); e == nil {
				err = errors.Join(err, errors.New("the pod's directory is left"))
			}
			return err
		})
	})
}

// A static pod ends whose file goes while the agent is down (kubernetes/kubernetes#135698).
func TestManifestRemovedWhileTheAgentIsDown(t *testing.T) {
	ofFiles(t, func(p *place) {
		p.pod(pod("web", node.Idle))
		p.ready("web")
		p.down(p.T, func() { p.remove("web") })
		p.until("no container to be left", func() error { return p.left("web") })
	})
}

// left returns an error while the runtime has containers of a pod.
func (p *place) left(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
	defer cancel()
	list, err := p.runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		LabelSelector: map[string]string{node.PodNamespaceLabel: p.namespace, node.PodNameLabel: p.full(name)},
	}})
	if err == nil && len(list.GetContainers()) > 0 {
		err = errors.New("the runtime has some")
	}
	return err
}
