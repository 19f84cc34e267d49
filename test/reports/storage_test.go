//go:build reports

package reports

import (
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/node"
)

// A pod that writes to the node's disk beyond its limit is evicted, wherever it writes (kubernetes/kubernetes#122224:
// /dev/termination-log).
func TestDiskBeyondTheLimitWhereverItIs(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"message": "/dev/termination-log", "hosts": "/etc/hosts", "hostname": "/etc/hostname",
		"resolvers": "/etc/resolv.conf", "layer": "/f", "volume": "/v/f",
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(p *place) {
				p.pod(fills(file))
				if ended := p.ended("fills"); ended.Status.Reason != "Evicted" {
					p.Errorf("%s: %s %q", ended.Status.Phase, ended.Status.Reason, ended.Status.Message)
				}
			})
		})
	}
	t.Run("message of an init container", func(t *testing.T) {
		everywhere(t, func(p *place) {
			spec := fills("/dev/null")
			first := node.Shell("first", node.Image, "dd if=/dev/zero of=/dev/termination-log bs=1M count=8; exit 0")
			spec.Spec.InitContainers = []core.Container{first}
			p.pod(spec)
			if ended := p.ended("fills"); ended.Status.Reason != "Evicted" {
				p.Errorf("%s: %s %q", ended.Status.Phase, ended.Status.Reason, ended.Status.Message)
			}
		})
	})
}

// fills returns a pod that writes 8 MiB to a file, with a limit of 4 MiB.
func fills(file string) *core.Pod {
	return pod("fills", "dd if=/dev/zero of="+file+" bs=1M count=8; "+node.Idle, node.Scratch, func(p *core.Pod) {
		p.Spec.Containers[0].Resources.Limits = core.ResourceList{
			core.ResourceEphemeralStorage: resource.MustParse("4Mi"),
		}
	})
}
