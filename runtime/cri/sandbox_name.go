package cri

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// podsByName are the UIDs of this agent's pods that the runtime has, by namespace and name.
type podsByName map[types.NamespacedName][]string

// earlierPods are the pods that the runtime had before this agent created its first sandbox: pods of an earlier agent,
// or of a kubelet. The node keeps the names of all later ones apart.
type earlierPods struct{ found atomic.Pointer[podsByName] }

// uidsOf returns the UIDs of the earlier pods with a name.
func (e *earlierPods) uidsOf(ctx context.Context, c *call, name types.NamespacedName) ([]string, error) {
	if found := e.found.Load(); found != nil {
		return (*found)[name], nil
	}
	list, err := retry(ctx, c, "ListPodSandbox", c.opts.Timeouts.Call, c.rt.ListPodSandbox,
		&runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	found := podsByName{}
	for _, s := range list.GetItems() {
		l := s.GetLabels()
		uid, has := l[LabelPodUID], types.NamespacedName{Namespace: l[LabelPodNamespace], Name: l[LabelPodName]}
		if uid != "" && c.opts.Owner.Owns(s) && !slices.Contains(found[has], uid) {
			found[has] = append(found[has], uid)
		}
	}
	// Of two calls at once either list will do: what this agent creates in between has names of its own.
	e.found.CompareAndSwap(nil, &found)
	return found[name], nil
}

// checkName fails while a container of an earlier pod with the name of a static pod may run: two of them never run at
// once (ADR 113). Pods of the API server may, as with a kubelet.
func (c *call) checkName(ctx context.Context, pod *corev1.Pod) error {
	if !manifest.IsStatic(pod) {
		return nil
	}
	uids, err := c.earlier.uidsOf(ctx, c, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	if err != nil {
		return err
	}
	for _, uid := range uids {
		if uid == c.UID {
			continue
		}
		// The same UID may be a pod of another name by now.
		running, err := c.mayRun(ctx, map[string]string{
			LabelPodUID: uid, LabelPodNamespace: pod.Namespace, LabelPodName: pod.Name,
		})
		if err != nil {
			return err
		}
		if running != "" {
			return nameTaken(uid, running)
		}
	}
	return nil
}

func nameTaken(uid, container string) error {
	f := calls.Retryable(journaletv1.CallError_CALL_ERROR_NAME_TAKEN, fmt.Sprintf(
		"container %s of an earlier pod with this name still runs; the UID of that pod is %s", container, uid))
	f.NameHolder = uid
	return f
}
