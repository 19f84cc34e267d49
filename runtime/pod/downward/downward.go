package downward

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/actors/resources"
)

// Pod is a pod and what the node knows of it.
type Pod struct {
	*corev1.Pod
	// Node replaces a nodeName that the manifest does not set.
	Node string
	// HostIPs and PodIPs are addresses, the primary one first. NoHostIP is why the first are not known.
	HostIPs, PodIPs []string
	NoHostIP        error
	// Allocatable replaces the limits of CPU, memory and ephemeral storage that a container does not set.
	Allocatable corev1.ResourceList
}

// Field returns a field of the pod. Labels and annotations as a whole, which only volumes may ask for, are lines of
// key="value", sorted.
func (p Pod) Field(path string) (string, error) {
	if kind, key, ok := subscript(path); ok {
		switch kind {
		case "metadata.labels":
			return p.Labels[key], nil
		case "metadata.annotations":
			return p.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.labels":
		return lines(p.Labels), nil
	case "metadata.annotations":
		return lines(p.Annotations), nil
	case "metadata.name":
		return p.Name, nil
	case "metadata.namespace":
		return p.Namespace, nil
	case "metadata.uid":
		return string(p.UID), nil
	case "spec.nodeName", "spec.host":
		if p.Spec.NodeName != "" {
			return p.Spec.NodeName, nil
		}
		return p.Node, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(p.HostIPs), p.NoHostIP
	case "status.hostIPs":
		return strings.Join(p.HostIPs, ","), p.NoHostIP
	case "status.podIP":
		return first(p.PodIPs), nil
	case "status.podIPs":
		return strings.Join(p.PodIPs, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %s", path)
}

// subscript splits metadata.labels['key'] into metadata.labels and key.
func subscript(path string) (kind, key string, ok bool) {
	kind, rest, ok := strings.Cut(path, "['")
	key, closed := strings.CutSuffix(rest, "']")
	return kind, key, ok && closed
}

func lines(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(out, "\n")
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// WithPodLimits returns allocatable with the pod's own limits in its place, where it sets them: they bound each of its
// containers.
func WithPodLimits(allocatable corev1.ResourceList, pod *corev1.Pod) corev1.ResourceList {
	if pod.Spec.Resources == nil {
		return allocatable
	}
	out := maps.Clone(allocatable)
	for name, q := range pod.Spec.Resources.Limits {
		if _, ok := out[name]; ok && !q.IsZero() && resourcehelper.IsSupportedPodLevelResource(name) {
			out[name] = q
		}
	}
	return out
}

// defaulted are the resources whose limits have a default. Huge pages have none: they are never overcommitted, so a
// container sets all that it gets.
var defaulted = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// Resource returns a request or limit in units of the divisor, rounded up. If ref names no container it reads
// container, which is nil for a file of a volume. A resource that the container does not set is 0, but limits of CPU,
// memory and ephemeral storage are then what Allocatable has.
func (p Pod) Resource(container *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" && (container == nil || ref.ContainerName != container.Name) {
		container = p.container(ref.ContainerName)
	}
	if container == nil {
		return "", fmt.Errorf("container %s not found", ref.ContainerName)
	}
	kind, rest, _ := strings.Cut(ref.Resource, ".")
	name := corev1.ResourceName(rest)
	huge := strings.HasPrefix(rest, corev1.ResourceHugePagesPrefix)
	if !huge && !slices.Contains(defaulted, name) || kind != "limits" && kind != "requests" {
		return "", fmt.Errorf("unsupported container resource : %s", ref.Resource)
	}
	q, set := container.Resources.Limits[name]
	if request, ok := container.Resources.Requests[name]; ok && kind == "requests" {
		q = request
	} else if kind == "limits" && !huge && (!set || q.IsZero()) {
		q = p.Allocatable[name]
	}
	if name == corev1.ResourceCPU {
		return divide(resources.Millis(&q), &ref.Divisor, resources.Millis), nil
	}
	return divide(resources.Bytes(&q), &ref.Divisor, resources.Bytes), nil
}

// container returns the main or init container with this name, or nil.
func (p Pod) container(name string) *corev1.Container {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// divide counts a value in units of the divisor, both in the unit of count. A divisor of 0 is 1.
func divide(value int64, divisor *resource.Quantity, count func(*resource.Quantity) int64) string {
	by := count(divisor)
	if by <= 0 {
		by = count(resource.NewQuantity(1, resource.DecimalSI))
	}
	n := value / by
	if value%by > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}
