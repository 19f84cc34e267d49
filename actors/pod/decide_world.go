package pod

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

// unfit returns why no container may run in the pod's sandbox, although it is ready; "" if containers may. What runs in
// it gets its grace period, then the sandbox is replaced, as by the kubelet.
func (d *step) unfit() string {
	switch {
	case d.inOtherNetwork():
		return "its sandbox has another network than the pod"
	case d.hasOtherUsers():
		return "its sandbox is in another user namespace than the pod"
	case d.lostNetwork():
		return "its sandbox has lost its network"
	case d.state.GetSandboxId() != "" && d.state.GetSandboxId() == d.state.GetNoCgroupSandboxId():
		return "its sandbox is not in the pod's cgroup"
	case d.state.GetSandboxId() != "" && d.state.GetSandboxId() == d.state.GetMisnamedSandboxId():
		return "its sandbox is of an earlier pod with another name"
	}
	return ""
}

// inOtherNetwork reports whether the pod's sandbox has a network of its own and the manifest desires the node's, or the
// reverse. After a lost journal an earlier pod of this UID may have left it. It is replaced, as by the kubelet.
func (d *step) inOtherNetwork() bool {
	desired := journaletv1.NetworkMode_NETWORK_MODE_POD
	if d.manifest.Spec.HostNetwork {
		desired = journaletv1.NetworkMode_NETWORK_MODE_NODE
	}
	return slices.ContainsFunc(d.state.GetObserved().GetSandboxes(), func(x *journaletv1.SandboxObservation) bool {
		return x.GetId() == d.state.GetSandboxId() && x.GetNetwork() != desired &&
			x.GetNetwork() != journaletv1.NetworkMode_NETWORK_MODE_UNSPECIFIED
	})
}

// hasOtherUsers reports whether the pod's sandbox is in another user namespace than the manifest desires: an earlier
// pod of this UID may have left it. No container of the pod could be created in it. A sandbox that no call of this
// incarnation has created, and that the runtime reports without ids, has no ids if nothing of the pod had any.
func (d *step) hasOtherUsers() bool {
	desired := d.state.GetUserNamespace()
	return slices.ContainsFunc(d.state.GetObserved().GetSandboxes(), func(x *journaletv1.SandboxObservation) bool {
		switch has := x.GetUserNamespace(); {
		case x.GetId() != d.state.GetSandboxId():
			return false
		case has == nil:
			return d.state.GetFreshUserNamespace() && x.GetId() != d.state.GetCreatedSandboxId()
		default:
			return !proto.Equal(has, desired)
		}
	})
}

// lostNetwork reports whether the pod's sandbox is ready and has no address in the network of its own.
func (a *Actor) lostNetwork() bool {
	return slices.ContainsFunc(a.state.GetObserved().GetSandboxes(), func(x *journaletv1.SandboxObservation) bool {
		return x.GetId() == a.state.GetSandboxId() && x.GetNoAddress()
	})
}
