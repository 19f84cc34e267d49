package cri

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// InitCgroups creates the tree of pods' cgroups for the runtime's cgroup driver, and sets the limits of all pods
// together. It fails while the runtime is unavailable; try again later. A pod that starts earlier creates the tree.
func (d *Driver) InitCgroups(ctx context.Context) error {
	t := d.opts.PodCgroups
	if t == nil || !t.ShouldInit() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeouts.Inspect)
	defer cancel()
	driver, err := d.cgroupDriver(ctx)
	if err != nil {
		return err
	}
	if err := t.Init(driver); err != nil {
		return err
	}
	return t.SetNodeLimits()
}

// LostCgroups returns the pods of earlier runs, by UID, that have a running container and not the cgroup that they are
// to have. The tree must be initialized.
func (d *Driver) LostCgroups(ctx context.Context) ([]string, error) {
	lost := d.opts.PodCgroups.Lost()
	if len(lost) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeouts.Inspect)
	defer cancel()
	running, err := d.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(lost), func(uid string) bool {
		return !slices.ContainsFunc(running.GetContainers(), func(c *runtimeapi.Container) bool {
			return c.GetLabels()[LabelPodUID] == uid && d.opts.Owner.Owns(c)
		})
	}), nil
}

// cgroupDriver returns the cgroup driver that the runtime reports, else the configured one.
func (d *Driver) cgroupDriver(ctx context.Context) (string, error) {
	driver, err := CgroupDriver(ctx, d.rt)
	if err != nil {
		return "", err
	}
	return cmp.Or(driver, d.opts.CgroupDriver), nil
}

// cgroups returns the tree of pods' cgroups, initialized; nil if it is not, and this pod neither has a cgroup nor needs
// one.
func (c *call) cgroups(ctx context.Context, needed bool) (*cgroup.Tree, error) {
	t := c.opts.PodCgroups
	switch {
	case t == nil || t.Ready():
		return t, nil
	case !needed && !t.Has(c.UID):
		return nil, nil
	}
	driver, err := retryFunc(ctx, c, "RuntimeConfig", c.opts.Timeouts.Inspect, c.cgroupDriver)
	if err != nil {
		return nil, err
	}
	if err := t.Init(driver); err != nil {
		return nil, calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error())
	}
	return t, nil
}

// ensureCgroup creates the pod's cgroup, if the pod is to have one. It has no CPU quota if a container of the pod has
// exclusive CPUs.
func (c *call) ensureCgroup(ctx context.Context, pod *corev1.Pod, exclusive bool) error {
	if t := c.opts.PodCgroups; t == nil || !t.Wants(pod) {
		return nil
	}
	t, err := c.cgroups(ctx, true)
	if err != nil {
		return err
	}
	if err := t.Ensure(pod, exclusive); err != nil {
		return calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, "create the pod's cgroup: "+err.Error())
	}
	return nil
}

// cgroupParent returns the pod's cgroup for the sandbox configuration; "" if pods have none.
func (d *Driver) cgroupParent(pod *corev1.Pod) (string, error) {
	if t := d.opts.PodCgroups; t != nil && t.Ready() {
		return t.Parent(pod)
	}
	return "", nil
}

// resizeCgroup runs one of the two steps that resize the pod's cgroup with its containers.
func (c *call) resizeCgroup(
	ctx context.Context, pod *corev1.Pod, exclusive bool, step func(*cgroup.Tree, *corev1.Pod, bool) error,
) error {
	t, err := c.cgroups(ctx, false)
	if t == nil || err != nil {
		return err
	}
	if err := step(t, pod, exclusive); err != nil {
		return calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error())
	}
	return nil
}

// releaseCgroup removes the pod's cgroup if it is empty. Otherwise the cgroup is removed with the pod.
func (c *call) releaseCgroup() {
	if t := c.opts.PodCgroups; t != nil && t.Ready() {
		t.RemoveIfEmpty(c.UID)
	}
}

// removeCgroup kills what still runs in the pod's cgroup and removes it.
func (c *call) removeCgroup(ctx context.Context) error {
	t, err := c.cgroups(ctx, false)
	if t == nil || err != nil {
		return err
	}
	if err := t.Remove(c.UID); err != nil {
		return calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error())
	}
	return nil
}
