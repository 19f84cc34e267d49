package cri

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// ownUsers reports whether a pod is to have a user namespace of its own.
func ownUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// userNamespace returns the pod's user namespace for CRI, nil for the node's. It fails if the node has given the pod no
// ids: it must not run with the node's.
func userNamespace(pod *corev1.Pod, ids *journaletv1.UserNamespace) (*runtimeapi.UserNamespace, error) {
	switch {
	case !ownUsers(pod):
		return nil, nil
	case ids.GetLength() == 0:
		return nil, fmt.Errorf("hostUsers is false, and the node has given the pod no ids; remove the pod and add it again")
	}
	m := []*runtimeapi.IDMapping{{HostId: ids.GetHostId(), Length: ids.GetLength()}}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: m, Gids: m}, nil
}

// mapIDs maps the ids of all mounts of a container in a user namespace, so that files on the node keep the pod's ids.
func mapIDs(mounts []*runtimeapi.Mount, to *runtimeapi.UserNamespace) {
	if to == nil {
		return
	}
	for _, m := range mounts {
		m.UidMappings, m.GidMappings = to.GetUids(), to.GetGids()
	}
}

// keepUserNamespace writes the pod's ids into its directory, for a node that has lost its journal.
func (c *call) keepUserNamespace(pod *corev1.Pod, ids *journaletv1.UserNamespace) error {
	if !ownUsers(pod) || ids == nil {
		return nil
	}
	if err := c.opts.Volumes.WriteUserNamespace(c.UID, ids); err != nil {
		return calls.Retryable(journaletv1.CallError_CALL_ERROR_VOLUME, err.Error())
	}
	return nil
}

// checkFeatures fails for a pod that needs a feature which the runtime, or the pod's handler of it, does not have. The
// messages are the kubelet's. It asks only for a pod that needs one, and each time: the runtime may have been upgraded.
func (c *call) checkFeatures(ctx context.Context, pod *corev1.Pod, handler string) error {
	policy := corev1.SupplementalGroupsPolicyMerge
	if sc := pod.Spec.SecurityContext; sc != nil && sc.SupplementalGroupsPolicy != nil {
		policy = *sc.SupplementalGroupsPolicy
	}
	if !ownUsers(pod) && policy != corev1.SupplementalGroupsPolicyStrict {
		return nil
	}
	st, err := retry(ctx, c, "Status", c.opts.Timeouts.Inspect, c.rt.Status, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	why := ""
	if policy == corev1.SupplementalGroupsPolicyStrict && !st.GetFeatures().GetSupplementalGroupsPolicy() {
		why = fmt.Sprintf("SupplementalGroupsPolicy=%s is not supported in this node", policy)
	}
	if ownUsers(pod) && !hasUserNamespaces(st, handler) {
		why = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
		if handler != "" {
			why = fmt.Sprintf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces",
				handler)
		}
	}
	if why != "" {
		return calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, why)
	}
	return nil
}

func hasUserNamespaces(st *runtimeapi.StatusResponse, handler string) bool {
	for _, h := range st.GetRuntimeHandlers() {
		if h.GetName() == handler {
			return h.GetFeatures().GetUserNamespaces()
		}
	}
	return false
}
