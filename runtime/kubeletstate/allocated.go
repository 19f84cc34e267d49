package kubeletstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/runtime/bounded"
)

// The files of a kubelet's in-place resizes, below the root directory (KEP-1287). The first has the resources that are
// allocated to pods, which a pod keeps while its resize is pending; the second the resources that containers were last
// given.
const (
	AllocatedFile = "allocated_pods_state"
	ActuatedFile  = "actuated_pods_state"
)

// maxPods bounds the pods that are read of such a file: more than a node runs.
const maxPods = 4096

// PodResources are the resources of one pod as such a file has them (kubelet: PodResourceInfo).
type PodResources struct {
	// Containers are all containers, by name.
	Containers map[string]corev1.ResourceRequirements `json:"ContainerResources"`
	// Pod are spec.resources; nil if the pod has none.
	Pod *corev1.ResourceRequirements `json:"PodLevelResources"`
	// EmptyDirs are the size limits of emptyDirs in memory, by volume.
	EmptyDirs map[string]*resource.Quantity `json:"EmptyDirVolumeLimits"`
}

// podsResources is the content of such a file, by UID.
type podsResources struct {
	Entries map[string]PodResources `json:"entries,omitempty"`
}

// resourcesFile is such a file: its content as a text, and the sum of the text.
type resourcesFile struct {
	Data     string   `json:"data"`
	Checksum checksum `json:"checksum"`
}

// ReadAllocated returns the resources that a kubelet had allocated to pods, by UID, none if it has left no file. It
// reads the file as a whole or not at all: an error has the path, the reason and what follows.
func ReadAllocated(dir string) (map[string]PodResources, error) {
	all, err := readAllocated(dir)
	if err != nil {
		return nil, fmt.Errorf("the kubelet's state file %s: %w; pods whose resize is pending request what their specs have",
			filepath.Join(dir, AllocatedFile), reason(err))
	}
	return all, nil
}

func readAllocated(dir string) (map[string]PodResources, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := bounded.ReadFileIn(root, AllocatedFile, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file resourcesFile
	if err := decode(data, &file); err != nil {
		return nil, err
	}
	if err := verify(file.Data, file.Checksum); err != nil {
		return nil, err
	}
	var content podsResources
	if err := decode([]byte(file.Data), &content); err != nil {
		return nil, err
	}
	if n := len(content.Entries); n > maxPods {
		return nil, fmt.Errorf("it has %d pods, and at most %d are read", n, maxPods)
	}
	for uid, p := range content.Entries {
		for name, r := range p.Containers {
			if negative(&r) {
				return nil, fmt.Errorf("it is damaged: container %.63q of pod %.63q has less than nothing", name, uid)
			}
		}
		if p.Pod != nil && negative(p.Pod) {
			return nil, fmt.Errorf("it is damaged: pod %.63q has less than nothing", uid)
		}
	}
	return content.Entries, nil
}

// negative reports whether a request or limit is below zero, which no API server accepts.
func negative(r *corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for _, q := range list {
			if q.Sign() < 0 {
				return true
			}
		}
	}
	return false
}

// ResourcesOf returns the resources of a pod's spec as a kubelet notes them (kubelet: ResourceInfoForPod).
func ResourcesOf(pod *corev1.Pod) PodResources {
	out := PodResources{Containers: map[string]corev1.ResourceRequirements{}, Pod: pod.Spec.Resources}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		out.Containers[c.Name] = c.Resources
	}
	for _, v := range pod.Spec.Volumes {
		if dir := v.EmptyDir; dir != nil && dir.Medium == corev1.StorageMediumMemory && dir.SizeLimit != nil &&
			!dir.SizeLimit.IsZero() {
			if out.EmptyDirs == nil {
				out.EmptyDirs = map[string]*resource.Quantity{}
			}
			out.EmptyDirs[v.Name] = dir.SizeLimit
		}
	}
	return out
}

// resourcesData returns the content of such a file.
func resourcesData(pods map[string]PodResources) ([]byte, error) {
	text, err := json.Marshal(podsResources{pods})
	if err != nil {
		return nil, err
	}
	return json.Marshal(resourcesFile{string(text), sumOf(string(text))})
}
