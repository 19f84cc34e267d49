package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/pod/subpath"
)

// Volumes manages a pod's directories and volumes on the node. It is implemented by volume.Driver, which documents the
// methods.
type Volumes interface {
	SetUp(ctx context.Context, pod *corev1.Pod, req *journaletv1.SetUpVolumes) []*journaletv1.VolumeOutcome
	TearDown(ctx context.Context, uid string) ([]*journaletv1.VolumeOutcome, error)
	Clean(ctx context.Context, uid, namespace, name string) ([]*journaletv1.VolumeOutcome, error)
	Check(ctx context.Context, pod *corev1.Pod, name string) error
	Path(pod *corev1.Pod, name string) (string, error)
	Relabels(pod *corev1.Pod, name string) bool
	MountSubPath(pod *corev1.Pod, container string, index int, volume, path string) (string, error)
	CreateMountPoint(ctx context.Context, pod *corev1.Pod, p subpath.MountPoint) error
	CreatePodDirs(uid string) error
	CreateLogDir(namespace, name, uid, container string) (string, error)
	CreateTerminationFile(uid, container string, attempt uint32) (string, error)
	RemoveInstances(namespace, name, uid, container string, gone func(attempt uint32) (bool, error)) error
	WriteHosts(uid string, content []byte) (string, error)
	WriteUserNamespace(uid string, ids *journaletv1.UserNamespace) error
	WriteResources(uid string, given *journaletv1.GivenResources) error
}

func (c *call) setUpVolumes(ctx context.Context, req *journaletv1.SetUpVolumes) (*calls.Outcome, error) {
	pod, err := c.AllocatedPod(ctx, req)
	if err != nil {
		return nil, err
	}
	outcomes := c.opts.Volumes.SetUp(ctx, pod, req)
	if ctx.Err() != nil {
		return nil, ctx.Err() // what failed may have failed for this reason
	}
	return &calls.Outcome{Volumes: outcomes}, volumeFailure(outcomes)
}

func (c *call) cleanPod(ctx context.Context, req *journaletv1.CleanPod) (*calls.Outcome, error) {
	if err := c.noneRuns(ctx); err != nil {
		return nil, err
	}
	res := &calls.Outcome{}
	var err error
	if req.GetAll() {
		res.Volumes, err = c.opts.Volumes.Clean(ctx, c.UID, req.GetNamespace(), req.GetName())
	} else {
		res.Volumes, err = c.opts.Volumes.TearDown(ctx, c.UID)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return res, calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	if err := volumeFailure(res.GetVolumes()); err != nil {
		return res, err
	}
	if req.GetAll() {
		err = c.removeCgroup(ctx)
	}
	return res, err
}

// noneRuns fails while a container of the pod runs. After a lost journal one may be observed only when the clean-up is
// under way already: it keeps its volumes until it is stopped.
func (c *call) noneRuns(ctx context.Context) error {
	name, err := c.mayRun(ctx, map[string]string{LabelPodUID: c.UID})
	if err != nil || name == "" {
		return err
	}
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME,
		fmt.Sprintf("container %s of the pod still runs", name))
}

// mayRun returns the name of a container with these labels that runs, or whose state the runtime does not know, of this
// agent's; "" if none does.
func (c *call) mayRun(ctx context.Context, labels map[string]string) (string, error) {
	resp, err := retry(ctx, c, "ListContainers", c.opts.Timeouts.Call, c.rt.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
	if err != nil {
		return "", err
	}
	for _, x := range resp.GetContainers() {
		alive := x.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING ||
			x.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN
		if alive && c.opts.Owner.Owns(x) {
			return x.GetMetadata().GetName(), nil
		}
	}
	return "", nil
}

// volumeFailure returns the failure of a call some of whose volumes have failed: the first of them, and how many more.
// The call may be retried if one of them may.
func volumeFailure(outcomes []*journaletv1.VolumeOutcome) error {
	var f *calls.Failure
	more := 0
	for _, o := range outcomes {
		if o.GetMessage() == "" {
			continue
		}
		if f == nil {
			f = calls.Fail(journaletv1.CallError_CALL_ERROR_VOLUME, o.GetMessage())
		} else {
			more++
		}
		f.Retryable = f.Retryable || o.GetRetryable()
	}
	if f == nil {
		return nil
	}
	if more > 0 {
		f.Message += fmt.Sprintf(" (and %d more volumes)", more)
	}
	return f
}

// checkVolumes fails unless what was set up of the container's volumes is still there. It names all that are gone.
func (c *call) checkVolumes(ctx context.Context, in containerInput) error {
	var f *calls.Failure
	for _, name := range volumesOf(in.container) {
		v := volumeOf(in.pod, name)
		if v == nil {
			continue // the mount reports it
		}
		err := c.opts.Volumes.Check(ctx, in.pod, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			continue
		}
		message := fmt.Sprintf("volume %q is not set up: %v", name, err)
		if f == nil {
			f = calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, message)
		}
		if !errors.Is(err, bounded.ErrNoAnswer) { // one whose server is away is mounted, and comes back as it was
			f.Gone = append(f.Gone, &journaletv1.VolumeOutcome{Name: name, Message: message, Retryable: true})
		}
	}
	if f == nil {
		return nil
	}
	return f
}

// volumesOf returns the names of the volumes that a container has, each once.
func volumesOf(c *corev1.Container) []string {
	var all []string
	for _, m := range c.VolumeMounts {
		all = append(all, m.Name)
	}
	for _, m := range c.VolumeDevices {
		all = append(all, m.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
