package cri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// maxNamedUsers bounds the users of an image that an outcome names.
const maxNamedUsers = 5

// ImageUse is one container's use of one image.
type ImageUse struct {
	// Image is the image's id or one of its names.
	Image string
	// Volume reports that it is mounted as a volume. Otherwise the container was created from it.
	Volume bool
	// ContainerID is the runtime's. The others are empty for a container that no Kubernetes agent created.
	ContainerID, Container, Pod, Namespace, UID string
	// Running reports that the container runs. A dead one uses its image until it is removed.
	Running bool
	// Sandboxes reports that it is no container: the runtime creates sandboxes from the image.
	Sandboxes bool
}

// String returns "container app of pod default/web", with what it is if it does not run.
func (u ImageUse) String() string {
	if u.Sandboxes {
		return "the runtime, for sandboxes"
	}
	s := "container " + u.ContainerID
	if u.Pod != "" {
		s = fmt.Sprintf("container %s of pod %s/%s", u.Container, u.Namespace, u.Pod)
	}
	if !u.Running {
		return s + " (not running)"
	}
	return s
}

// imageUses remembers which images a container mounts. That never changes, and only the status of each single container
// has it, so it is read once.
type imageUses struct {
	mu     sync.Mutex
	mounts map[string][]string // by container
}

// ImageUses returns which containers use which images, dead containers included, in the runtime's order. A container
// that is removed meanwhile is left out.
func (d *Driver) ImageUses(ctx context.Context) ([]ImageUse, error) {
	return d.imageUses(ctx, d.aside())
}

func (d *Driver) imageUses(ctx context.Context, c *call) ([]ImageUse, error) {
	resp, err := once(ctx, c, c.opts.Timeouts.Inspect, c.rt.ListContainers, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	var all []ImageUse
	sandboxes, err := c.sandboxImage(ctx)
	if err != nil {
		return nil, err
	}
	if sandboxes != "" {
		all = append(all, ImageUse{Image: sandboxes, Sandboxes: true})
	}
	known := map[string][]string{}
	for _, item := range resp.GetContainers() {
		l := item.GetLabels()
		u := ImageUse{
			ContainerID: item.GetId(), Container: l[LabelContainerName], Pod: l[LabelPodName],
			Namespace: l[LabelPodNamespace], UID: l[LabelPodUID],
			Running: item.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING,
		}
		// Runtimes fill one or the other: the image's id, or a reference.
		for _, name := range slices.Compact([]string{item.GetImageId(), item.GetImageRef()}) {
			if u.Image = name; name != "" {
				all = append(all, u)
			}
		}
		mounts, err := d.mountedImages(ctx, c, item.GetId())
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		known[item.GetId()] = mounts
		for _, name := range mounts {
			u.Image, u.Volume = name, true
			all = append(all, u)
		}
	}
	d.uses.mu.Lock()
	defer d.uses.mu.Unlock()
	d.uses.mounts = known
	return all, nil
}

// mountedImages returns the images that a container mounts as volumes.
func (d *Driver) mountedImages(ctx context.Context, c *call, id string) ([]string, error) {
	d.uses.mu.Lock()
	mounts, ok := d.uses.mounts[id]
	d.uses.mu.Unlock()
	if ok {
		return mounts, nil
	}
	resp, err := once(ctx, c, c.opts.Timeouts.Inspect, c.rt.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil, err
	}
	for _, m := range resp.GetStatus().GetMounts() {
		if name := m.GetImage().GetImage(); name != "" {
			mounts = append(mounts, name)
		}
	}
	return mounts, nil
}

// removeImage removes an image with all its names, unless a container uses it. It is idempotent, so a removal in doubt
// is repeated.
func (c *call) removeImage(ctx context.Context, req *journaletv1.RemoveImage) (*calls.Outcome, error) {
	status, err := retry(ctx, c, "ImageStatus", c.opts.Timeouts.Call, c.images.ImageStatus,
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: req.GetImageId()}})
	if err != nil || status.GetImage() == nil {
		return nil, err
	}
	if status.GetImage().GetPinned() {
		return inUse("the runtime keeps it for itself (pinned)"), nil
	}
	names := slices.Concat([]string{req.GetImageId()}, status.GetImage().GetRepoTags(), status.GetImage().GetRepoDigests())
	uses, err := retryFunc(ctx, c, "ListContainers", c.opts.Timeouts.Call,
		func(ctx context.Context) ([]ImageUse, error) { return c.imageUses(ctx, c) })
	if err != nil {
		return nil, err
	}
	if users := usersOf(uses, names); users != "" {
		return inUse(users), nil
	}
	_, err = retry(ctx, c, "RemoveImage", c.opts.Timeouts.Call, c.images.RemoveImage,
		&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: req.GetImageId()}})
	if isNotFound(err) {
		err = nil
	}
	return nil, err
}

// inUse returns the outcome of a removal of an image that users need.
func inUse(users string) *calls.Outcome { return &calls.Outcome{ImageInUse: true, Message: users} }

// usersOf names the containers that use an image with these names; "" for none.
func usersOf(uses []ImageUse, names []string) string {
	var users []string
	for _, u := range uses {
		if slices.Contains(names, u.Image) && !slices.Contains(users, u.String()) {
			users = append(users, u.String())
		}
	}
	if len(users) == 0 {
		return ""
	}
	more := ""
	if n := len(users) - maxNamedUsers; n > 0 {
		users, more = users[:maxNamedUsers], fmt.Sprintf(" and %d more", n)
	}
	return "in use by " + strings.Join(users, ", ") + more
}
