package cri

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// BeginCgroups makes the tree of pods' cgroups in the form that the runtime uses, and bounds all pods together. It fails while the runtime is
// away; try again later. A first pod that comes earlier makes the tree itself.
func (d *Driver) BeginCgroups(ctx context.Context) error {
	t := d.opts.PodCgroups
	if t == nil || !t.Due() {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, d.opts.Timeouts.Look)
	defer cancel()
	driver, err := d.cgroupDriver(asking)
	if err != nil {
		return err
	}
	if err := t.Begin(driver); err != nil {
		return err
	}
	return t.Enforce()
}

// cgroupDriver asks the runtime which form of cgroups it uses. One that does not know the question, as containerd before 2.0, is taken to use what
// was configured.
func (d *Driver) cgroupDriver(ctx context.Context) (string, error) {
	resp, err := d.rt.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return d.opts.CgroupDriver, nil
	case err != nil:
		return "", err
	case resp.GetLinux() == nil:
		return d.opts.CgroupDriver, nil
	case resp.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD:
		return cgroup.Systemd, nil
	}
	return cgroup.Cgroupfs, nil
}

// cgroups are the pods' cgroups, ready to be used; nil where they are not made yet and this pod neither has one nor is to have one.
func (c *call) cgroups(ctx context.Context, wants bool) (*cgroup.Tree, error) {
	t := c.opts.PodCgroups
	switch {
	case t == nil || t.Ready():
		return t, nil
	case !wants && !t.Has(c.uid):
		return nil, nil
	}
	driver, err := settle(ctx, c, "RuntimeConfig", c.opts.Timeouts.Look, c.cgroupDriver)
	if err != nil {
		return nil, err
	}
	if err := t.Begin(driver); err != nil {
		return nil, retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error())
	}
	return t, nil
}

// ensureCgroup sees to it that the pod has its cgroup.
func (c *call) ensureCgroup(ctx context.Context, pod *corev1.Pod) error {
	if t := c.opts.PodCgroups; t == nil || !t.Wants(pod) {
		return nil
	}
	t, err := c.cgroups(ctx, true)
	if err != nil {
		return err
	}
	if err := t.Ensure(pod); err != nil {
		return retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, "the pod gets no cgroup: "+err.Error())
	}
	return nil
}

// cgroupParent is the pod's cgroup as the runtime takes it; "" where pods have none.
func (d *Driver) cgroupParent(pod *corev1.Pod) (string, error) {
	if t := d.opts.PodCgroups; t != nil && t.Ready() {
		return t.Parent(pod)
	}
	return "", nil
}

// resizeCgroup makes one of the two steps in which the pod's cgroup follows its containers.
func (c *call) resizeCgroup(ctx context.Context, pod *corev1.Pod, step func(*cgroup.Tree, *corev1.Pod) error) error {
	t, err := c.cgroups(ctx, false)
	if t == nil || err != nil {
		return err
	}
	if err := step(t, pod); err != nil {
		return retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error())
	}
	return nil
}

// releaseCgroup removes the pod's cgroup if nothing is in it any more. One that stays goes with the pod.
func (c *call) releaseCgroup() {
	if t := c.opts.PodCgroups; t != nil && t.Ready() {
		t.Release(c.uid)
	}
}

// removeCgroup removes the pod's cgroup for certain.
func (c *call) removeCgroup(ctx context.Context) error {
	t, err := c.cgroups(ctx, false)
	if t == nil || err != nil {
		return err
	}
	if err := t.Remove(c.uid); err != nil {
		return retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error())
	}
	return nil
}
