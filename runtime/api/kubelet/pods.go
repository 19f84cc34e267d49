package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/runtime/cri"
)

// pods serves the node's pods as a v1.PodList.
func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	s.allPods.serve(w, r, func(ctx context.Context) (page, error) { return encodePods(s.Pods.Pods(ctx)) })
}

// encodePods returns pods as a v1.PodList, which is written pod by pod.
func encodePods(pods iter.Seq[*corev1.Pod], err error) (page, error) {
	if err != nil {
		return nil, err
	}
	out := page{[]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`)}
	for p := range pods {
		item := *p
		item.TypeMeta = metav1.TypeMeta{} // as in any list
		text, err := json.Marshal(&item)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, []byte(","))
		}
		out = append(out, text)
	}
	return append(out, []byte("]}")), nil
}

func writeJSON(w http.ResponseWriter, data ...[]byte) {
	w.Header().Set("Content-Type", "application/json")
	for _, piece := range data {
		if _, err := w.Write(piece); err != nil {
			return // the client has left
		}
	}
}

// runningPods serves what the runtime shows, in the form of pods: names, UIDs, containers with their images.
func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	s.allRunning.serve(w, r, func(ctx context.Context) (page, error) { return encodePods(s.running(ctx)) })
}

func (s *Server) running(ctx context.Context) (iter.Seq[*corev1.Pod], error) {
	sandboxes, err := s.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return nil, err
	}
	containers, err := s.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, err
	}
	pods := map[string]*corev1.Pod{}
	for _, x := range sandboxes.GetItems() {
		if s.Owner.Owns(x) {
			m := x.GetMetadata()
			pods[x.GetId()] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				UID: types.UID(m.GetUid()), Name: m.GetName(), Namespace: m.GetNamespace(),
			}}
		}
	}
	for _, c := range containers.GetContainers() {
		if p := pods[c.GetPodSandboxId()]; p != nil {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
				Name: c.GetMetadata().GetName(), Image: c.GetImage().GetImage(),
			})
		}
	}
	return slices.Values(sorted(pods)), nil
}

// sorted returns pods by namespace and name.
func sorted(pods map[string]*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range pods {
		slices.SortFunc(p.Spec.Containers, func(a, b corev1.Container) int { return cmp.Compare(a.Name, b.Name) })
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// pod returns the pod that the path names. Otherwise it has answered, and returns nil.
func (s *Server) pod(w http.ResponseWriter, r *http.Request) *corev1.Pod {
	p, err := s.Pods.Pod(r.Context(), r.PathValue("namespace"), r.PathValue("pod"))
	switch {
	case err != nil:
		fail(w, http.StatusInternalServerError, err.Error())
		return nil
	case p == nil:
		fail(w, http.StatusNotFound, "pod does not exist")
	}
	return p
}

// names reports whether a client that names a pod by a UID, or by none, means p.
func (s *Server) names(p *corev1.Pod, uid string) bool {
	return uid == "" || uid == string(p.UID) || s.StaticUID != nil && s.StaticUID(uid) == string(p.UID)
}

// containerID returns the id of a pod's running container, "" if the runtime shows none. It goes by the pod's UID: a
// name that another pod has had leads nowhere. uid is the UID that the client has named, if any.
func (s *Server) containerID(ctx context.Context, p *corev1.Pod, uid, name string) (string, error) {
	if !s.names(p, uid) {
		return "", nil
	}
	resp, err := s.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{cri.LabelPodUID: string(p.UID), cri.LabelContainerName: name},
	}})
	if err != nil {
		return "", err
	}
	var newest *runtimeapi.Container
	for _, c := range resp.GetContainers() {
		if s.Owner.Owns(c) && (newest == nil || c.GetCreatedAt() > newest.GetCreatedAt()) {
			newest = c
		}
	}
	return newest.GetId(), nil
}

// has reports whether a pod has a container, and the UID, if a request names one. A session begins after that: its
// record names no container that a client has made up.
func (s *Server) has(p *corev1.Pod, uid, name string) bool {
	return s.names(p, uid) && containers.Find(p, name) != nil
}

// sandboxID returns the id of a pod's ready sandbox, "" if the runtime shows none.
func (s *Server) sandboxID(ctx context.Context, p *corev1.Pod) (string, error) {
	resp, err := s.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{cri.LabelPodUID: string(p.UID)},
	}})
	if err != nil {
		return "", err
	}
	var newest *runtimeapi.PodSandbox
	for _, x := range resp.GetItems() {
		if s.Owner.Owns(x) && (newest == nil || x.GetCreatedAt() > newest.GetCreatedAt()) {
			newest = x
		}
	}
	return newest.GetId(), nil
}

// fullName is the kubelet's name of a pod in messages.
func fullName(p *corev1.Pod) string { return fmt.Sprintf("%s_%s", p.Name, p.Namespace) }
