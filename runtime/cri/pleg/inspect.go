package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/defect"
)

// inspected inspects one pod. An inspection that panics has failed: other pods are inspected (ADR 115). repeated has it
// repeat one that failed, which has logged the stack.
func (p *PLEG) inspected(
	ctx context.Context, uid string, began *timestamppb.Timestamp, last *journaletv1.PodObserved, repeated bool,
) (now *journaletv1.PodObserved, err error) {
	defer defect.Recover(func(stack string) {
		if now, err = nil, errors.New(defect.Message); !repeated {
			p.log.Error("a pod cannot be inspected", "pod", uid, "error", err, "stack", stack)
		}
	})
	return p.inspect(ctx, uid, began, last)
}

// inspect returns an observation of one pod; nil if it equals the last one. It calls for a status only if that can have
// more than the list and the last observation.
func (p *PLEG) inspect(
	ctx context.Context, uid string, began *timestamppb.Timestamp, last *journaletv1.PodObserved,
) (*journaletv1.PodObserved, error) {
	ctx, cancel := clock.WithTimeout(ctx, p.clock, p.opts.InspectTimeout)
	defer cancel()
	now := &journaletv1.PodObserved{Uid: uid, ObservedAt: began}
	selector := map[string]string{cri.LabelPodUID: uid}
	sandboxes, err := p.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: selector},
	})
	if err != nil {
		return nil, fmt.Errorf("list the pod's sandboxes: %w", err)
	}
	containers, err := p.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: selector},
	})
	if err != nil {
		return nil, fmt.Errorf("list the pod's containers: %w", err)
	}
	for _, c := range containers.GetContainers() {
		if !p.opts.Owner.Owns(c) {
			continue
		}
		o, err := p.container(ctx, uid, c, last)
		if err != nil {
			return nil, err
		}
		if o != nil {
			now.Containers = append(now.Containers, o)
			setName(now, last, c.GetLabels())
		}
	}
	var newest uint32
	ended := anyEnded(now, last)
	for _, s := range sandboxes.GetItems() {
		if !p.opts.Owner.Owns(s) {
			continue
		}
		o, err := p.sandbox(ctx, s, last, ended)
		if err != nil {
			return nil, err
		}
		if o != nil {
			now.Sandboxes = append(now.Sandboxes, o)
			if o.GetAttempt() >= newest {
				newest = o.GetAttempt()
				setName(now, last, s.GetLabels())
			}
		}
	}
	Sort(now)
	Fit(now)
	if last == nil && IsEmpty(now) || last != nil && !Differs(now, last) {
		return nil, nil
	}
	return now, nil
}

// setName sets a pod's name in its first observation: the name of its newest sandbox, or of a container if it has none.
// Sandboxes of a journal that was lost may have other names.
func setName(now, last *journaletv1.PodObserved, labels map[string]string) {
	if last == nil {
		now.PodNamespace, now.PodName = labels[cri.LabelPodNamespace], labels[cri.LabelPodName]
	}
}

// anyEnded reports whether a container has ended since the last observation.
func anyEnded(now, last *journaletv1.PodObserved) bool {
	const exited = journaletv1.ContainerState_CONTAINER_STATE_EXITED
	for _, c := range now.GetContainers() {
		before := func(o *journaletv1.ContainerObservation) bool {
			return o.GetId() == c.GetId() && o.GetState() == exited
		}
		if c.GetState() == exited && !slices.ContainsFunc(last.GetContainers(), before) {
			return true
		}
	}
	return false
}

// sandbox returns an observation of one sandbox; nil if it was removed meanwhile. A sandbox that was ready before is
// read again only if a container has ended, which may start again in it: no event reports that its network is lost.
func (p *PLEG) sandbox(
	ctx context.Context, s *runtimeapi.PodSandbox, last *journaletv1.PodObserved, ended bool,
) (*journaletv1.SandboxObservation, error) {
	state := sandboxState(s.GetState())
	var before *journaletv1.SandboxObservation
	for _, o := range last.GetSandboxes() {
		if o.GetId() == s.GetId() {
			again := ended && state == journaletv1.SandboxState_SANDBOX_STATE_READY &&
				o.GetNetwork() == journaletv1.NetworkMode_NETWORK_MODE_POD
			if before = o; o.GetState() == state && !again {
				return o, nil
			}
		}
	}
	out := &journaletv1.SandboxObservation{
		Id: s.GetId(), Attempt: s.GetMetadata().GetAttempt(), State: state, CreatedAt: timeOf(s.GetCreatedAt()),
		Ips: before.GetIps(), IntentId: s.GetAnnotations()[cri.AnnotationIntent], Network: before.GetNetwork(),
		UserNamespace: before.GetUserNamespace(),
	}
	if state != journaletv1.SandboxState_SANDBOX_STATE_READY {
		// The network of a dead sandbox is known already or does not matter.
		return out, nil
	}
	resp, err := p.rt.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: s.GetId()})
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("status of sandbox %s: %w", s.GetId(), err)
	}
	out.State = sandboxState(resp.GetStatus().GetState())
	out.Ips = cri.PodIPs(resp.GetStatus().GetNetwork(), p.opts.HostIPs)
	out.Network = networkMode(resp.GetStatus().GetLinux().GetNamespaces().GetOptions())
	out.UserNamespace = userNamespaceOf(resp.GetStatus().GetLinux().GetNamespaces().GetOptions().GetUsernsOptions())
	out.NoAddress = out.State == journaletv1.SandboxState_SANDBOX_STATE_READY &&
		out.Network == journaletv1.NetworkMode_NETWORK_MODE_POD &&
		resp.GetStatus().GetNetwork() != nil && resp.GetStatus().GetNetwork().GetIp() == ""
	return out, nil
}

// networkMode returns the network that a sandbox is in, as far as the runtime reports it.
func networkMode(o *runtimeapi.NamespaceOption) journaletv1.NetworkMode {
	switch {
	case o == nil:
	case o.GetNetwork() == runtimeapi.NamespaceMode_POD:
		return journaletv1.NetworkMode_NETWORK_MODE_POD
	case o.GetNetwork() == runtimeapi.NamespaceMode_NODE:
		return journaletv1.NetworkMode_NETWORK_MODE_NODE
	}
	return journaletv1.NetworkMode_NETWORK_MODE_UNSPECIFIED
}

// userNamespaceOf returns the user namespace of a sandbox; nil if it has none of its own, or none that an agent gives:
// one range of ids from 0 on.
func userNamespaceOf(o *runtimeapi.UserNamespace) *journaletv1.UserNamespace {
	if o.GetMode() != runtimeapi.NamespaceMode_POD || len(o.GetUids()) != 1 || o.GetUids()[0].GetContainerId() != 0 {
		return nil
	}
	return &journaletv1.UserNamespace{HostId: o.GetUids()[0].GetHostId(), Length: o.GetUids()[0].GetLength()}
}

// container returns an observation of one container; nil if it was removed meanwhile.
func (p *PLEG) container(
	ctx context.Context, uid string, c *runtimeapi.Container, last *journaletv1.PodObserved,
) (*journaletv1.ContainerObservation, error) {
	state := containerState(c.GetState())
	var before *journaletv1.ContainerObservation
	for _, o := range last.GetContainers() {
		if o.GetId() == c.GetId() {
			if before = o; Advance(o.GetState(), state) == o.GetState() {
				return o, nil
			}
		}
	}
	annotations := c.GetAnnotations()
	out := &journaletv1.ContainerObservation{
		Id: c.GetId(), Name: c.GetMetadata().GetName(), Attempt: c.GetMetadata().GetAttempt(),
		SandboxId: c.GetPodSandboxId(), State: state, CreatedAt: timeOf(c.GetCreatedAt()),
		Image: imageName(c.GetImage()), ImageRef: c.GetImageRef(),
		Hash: annotations[cri.AnnotationHash], IntentId: annotations[cri.AnnotationIntent],
	}
	if state == journaletv1.ContainerState_CONTAINER_STATE_CREATED {
		return out, nil // its status has nothing more
	}
	resp, err := p.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("status of container %s: %w", c.GetId(), err)
	}
	st := resp.GetStatus()
	out.State = Advance(before.GetState(), Advance(state, containerState(st.GetState())))
	out.StartedAt = timeOf(st.GetStartedAt())
	if name := imageName(st.GetImage()); name != "" {
		out.Image = name
	}
	if st.GetImageRef() != "" {
		out.ImageRef = st.GetImageRef()
	}
	out.User, out.RecursiveReadOnlyMounts = userOf(st, before), recursiveMounts(st)
	first := before == nil || before.GetState() == journaletv1.ContainerState_CONTAINER_STATE_CREATED
	running := out.State == journaletv1.ContainerState_CONTAINER_STATE_RUNNING
	if first && running && !p.isNewestStart(uid, out.GetName(), out.GetIntentId()) {
		out.Resources = cri.ReportedResources(st.GetResources().GetLinux())
	}
	if out.State == journaletv1.ContainerState_CONTAINER_STATE_EXITED {
		out.FinishedAt = timeOf(st.GetFinishedAt())
		out.ExitCode, out.Reason = st.GetExitCode(), reasonOf(st)
		out.Message = p.terminationMessage(uid, st)
	}
	return out, nil
}

// userOf returns who the first process of a container is, or was: a runtime that has forgotten it with the end of the
// container takes nothing back.
func userOf(
	st *runtimeapi.ContainerStatus, before *journaletv1.ContainerObservation,
) *journaletv1.ContainerUser {
	u := st.GetUser().GetLinux()
	if u == nil {
		return before.GetUser()
	}
	return &journaletv1.ContainerUser{
		Uid: u.GetUid(), Gid: u.GetGid(), SupplementalGroups: u.GetSupplementalGroups(),
	}
}

// recursiveMounts returns how many mounts of a container are read-only with everything that is mounted below them.
func recursiveMounts(st *runtimeapi.ContainerStatus) uint32 {
	var n uint32
	for _, m := range st.GetMounts() {
		if m.GetReadonly() && m.GetRecursiveReadOnly() {
			n++
		}
	}
	return n
}

// Reasons of an end, in the words of CRI runtimes, and what exit codes are.
const (
	reasonCompleted = "Completed"
	reasonError     = "Error"
	reasonOOMKilled = "OOMKilled"

	signalled = 128 // more than this is 128 and the number of a signal
	killed    = signalled + int32(unix.SIGKILL)
	lastOf    = signalled + 64 // signals end with 64
)

// reasonOf returns why a container has ended. A runtime says OOMKilled once the kernel has killed any process of the
// container for lack of memory, however long ago. The kernel kills by SIGKILL only, so a container that ended with
// success or by another signal ended for another reason (kubernetes/kubernetes#140716, #131530).
func reasonOf(st *runtimeapi.ContainerStatus) string {
	code := st.GetExitCode()
	switch {
	case st.GetReason() != reasonOOMKilled:
	case code == 0:
		return reasonCompleted
	case code > signalled && code <= lastOf && code != killed:
		return reasonError
	}
	return st.GetReason()
}

func imageName(spec *runtimeapi.ImageSpec) string {
	if spec.GetUserSpecifiedImage() != "" {
		return spec.GetUserSpecifiedImage()
	}
	return spec.GetImage()
}
