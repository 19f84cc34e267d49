package kubelet

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
)

// NoteResources notes the resources of pods in a state file of in-place resizes, as the kubelet does.
func NoteResources(dir, file string, pods []*v1.Pod) error {
	s, err := state.NewStateCheckpoint(klog.Background(), dir, file)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if err := s.SetPodResourceInfo(klog.Background(), p.UID, allocation.ResourceInfoForPod(p)); err != nil {
			return err
		}
	}
	return nil
}

// NotedResources returns what a state file has, as JSON, and what the kubelet would note of the pods.
func NotedResources(dir, file string, pods []*v1.Pod) (has, notes string, err error) {
	s, err := state.NewStateCheckpoint(klog.Background(), dir, file)
	if err != nil {
		return "", "", err
	}
	want := state.PodResourceInfoMap{}
	for _, p := range pods {
		want[p.UID] = allocation.ResourceInfoForPod(p)
	}
	a, err := json.Marshal(s.GetPodResourceInfoMap())
	if err != nil {
		return "", "", err
	}
	b, err := json.Marshal(want)
	return string(a), string(b), err
}
