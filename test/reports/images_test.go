//go:build reports

package reports

import (
	"context"
	"strings"
	"testing"

	"github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	core "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// loadedImage is the name of an image that no registry has, of a place of its own.
func (p *place) loadedImage() string { return "registry.invalid/" + p.namespace + ":1" }

// load gives an image of the node another name at the runtime, as `ctr images import` and `ctr images tag` do: by no
// pull. The name goes with the test.
func (p *place) load(name string) {
	p.Helper()
	client := images.NewImagesClient(p.runtime.Conn())
	ctx, cancel := node.Bounded()
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	found, err := client.Get(ctx, &images.GetImageRequest{Name: node.Image})
	must.OK(p.T, err)
	image := found.GetImage()
	image.Name = name
	_, err = client.Create(ctx, &images.CreateImageRequest{Image: image})
	must.OK(p.T, err)
	p.Cleanup(func() { p.unload(name) })
}

func (p *place) unload(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	_, err := images.NewImagesClient(p.runtime.Conn()).Delete(ctx, &images.DeleteImageRequest{Name: name})
	if err != nil && status.Code(err) != codes.NotFound {
		p.Error(err)
	}
}

// An image that comes to the node while its pull fails is used, with each policy that takes what is there, for a
// container, an init container and a volume (labring/sealos#2595, kubernetes/kubernetes#119891).
func TestImageThatIsLoadedWhileItsPullFails(t *testing.T) {
	everywhere(t, func(p *place) {
		image := p.loadedImage()
		p.pod(pod("main", node.Idle, func(pod *core.Pod) { pod.Spec.Containers[0].Image = image }))
		p.pod(pod("never", node.Idle, func(pod *core.Pod) {
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = image, core.PullNever
		}))
		p.pod(pod("init", node.Idle, func(pod *core.Pod) {
			pod.Spec.InitContainers = []core.Container{node.Shell("first", image, "true")}
		}))
		p.pod(pod("volume", node.Idle, func(pod *core.Pod) {
			pod.Spec.Volumes = []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{
				Image: &core.ImageVolumeSource{Reference: image, PullPolicy: core.PullIfNotPresent}}}}
			pod.Spec.Containers[0].VolumeMounts = []core.VolumeMount{{Name: "v", MountPath: "/v"}}
		}))
		p.pod(pod("always", node.Idle, func(pod *core.Pod) {
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = image, core.PullAlways
		}))
		p.waits("main", "main", "ImagePullBackOff")
		p.waits("never", "main", "ErrImageNeverPull")
		p.waits("init", "first", "ImagePullBackOff")
		p.waits("volume", "main", "ImagePullBackOff")
		p.waits("always", "main", "ImagePullBackOff")
		p.load(image)
		for _, name := range []string{"main", "never", "init", "volume"} {
			p.ready(name)
		}
		if message := p.waits("always", "main", "ImagePullBackOff"); !strings.Contains(message, image) {
			p.Errorf("the container of policy Always waits with %q", message)
		}
	})
}

// An image that comes to the node while the agent is down is used (labring/sealos#2595).
func TestImageThatIsLoadedWhileTheAgentIsDown(t *testing.T) {
	ofFiles(t, func(p *place) {
		image := p.loadedImage()
		p.pod(pod("web", node.Idle, func(pod *core.Pod) { pod.Spec.Containers[0].Image = image }))
		p.waits("web", "main", "ImagePullBackOff")
		p.down(p.T, func() { p.load(image) })
		p.ready("web")
	})
}

// An image that is removed from the node under a pod of policy Never is used again once it is back: the pod waits for
// it and says so (wso2/labs-agentic-engineer#471).
func TestImageThatComesBackIsUsed(t *testing.T) {
	ofFiles(t, func(p *place) {
		image := p.loadedImage()
		p.load(image)
		p.pod(pod("web", "sleep 5; exit 1", func(pod *core.Pod) {
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = image, core.PullNever
		}))
		p.await("web", "running", func(pod *core.Pod) bool { return node.Container(pod, "main").State.Running != nil })
		p.unload(image)
		p.waits("web", "main", "ErrImageNeverPull")
		p.load(image)
		before := node.Container(p.get("web"), "main").RestartCount
		p.await("web", "restarted", func(pod *core.Pod) bool { return node.Container(pod, "main").RestartCount > before })
	})
}
