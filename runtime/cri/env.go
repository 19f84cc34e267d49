package cri

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/cri/expand"
)

// environment returns a container's variables in the order of the manifest. A value may refer to earlier variables.
// What they take is charged to the budget; an error names the variable.
func (d *Driver) environment(in containerInput, budget *expand.Budget) ([]*runtimeapi.KeyValue, error) {
	known := make(map[string]string, len(in.container.Env))
	lookup := func(name string) (string, bool) {
		v, ok := known[name]
		return v, ok
	}
	var out []*runtimeapi.KeyValue
	at := make(map[string]int, len(in.container.Env))
	for i := range in.container.Env {
		e := &in.container.Env[i]
		value, err := e.Value, error(nil)
		refers := lookup
		if e.ValueFrom != nil {
			value, err = d.valueFrom(in, e.ValueFrom)
			refers = nil // what is read from a field is literal
		}
		if err == nil {
			value, err = budget.Variable(e.Name, value, refers)
		}
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", e.Name, err)
		}
		known[e.Name] = value
		// A name that is set twice counts once, with its last value.
		if j, again := at[e.Name]; again {
			out[j].Value = []byte(value)
			continue
		}
		at[e.Name] = len(out)
		out = append(out, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(value)})
	}
	return out, nil
}

func (d *Driver) valueFrom(in containerInput, from *corev1.EnvVarSource) (string, error) {
	switch {
	case from.FieldRef != nil:
		return d.fieldValue(in, from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return d.resourceValue(in, from.ResourceFieldRef)
	}
	return "", fmt.Errorf("this kind of valueFrom is not supported; use fieldRef or resourceFieldRef")
}

func (d *Driver) fieldValue(in containerInput, path string) (string, error) {
	pod := in.pod
	if kind, key, ok := subscript(path); ok {
		switch kind {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName", "spec.host":
		if pod.Spec.NodeName != "" {
			return pod.Spec.NodeName, nil
		}
		return d.opts.Node, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(d.opts.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(d.opts.HostIPs, ","), nil
	case "status.podIP":
		return first(in.podIPs), nil
	case "status.podIPs":
		return strings.Join(in.podIPs, ","), nil
	}
	return "", fmt.Errorf("fieldPath %q cannot be read into a variable", path)
}

// subscript splits metadata.labels['key'] into metadata.labels and key.
func subscript(path string) (kind, key string, ok bool) {
	kind, rest, ok := strings.Cut(path, "['")
	if !ok || !strings.HasSuffix(rest, "']") {
		return "", "", false
	}
	return kind, strings.TrimSuffix(rest, "']"), true
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// resourceValue returns a request or limit in units of the divisor, rounded up. As in the kubelet, a missing limit
// defaults to the node's allocatable, and a missing request to the limit.
func (d *Driver) resourceValue(in containerInput, ref *corev1.ResourceFieldSelector) (string, error) {
	container := in.container
	if ref.ContainerName != "" && ref.ContainerName != container.Name {
		if container = ContainerOf(in.pod, ref.ContainerName); container == nil {
			return "", fmt.Errorf("resourceFieldRef names container %q, which the pod does not have", ref.ContainerName)
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	resourceName := corev1.ResourceName(name)
	if resourceName != corev1.ResourceCPU && resourceName != corev1.ResourceMemory &&
		resourceName != corev1.ResourceEphemeralStorage && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
		return "", fmt.Errorf("resource %q cannot be read into a variable", ref.Resource)
	}
	var q resource.Quantity
	switch kind {
	case "limits":
		q = d.limitOf(in.pod, container, resourceName)
	case "requests":
		var given bool
		if q, given = container.Resources.Requests[resourceName]; !given {
			q = container.Resources.Limits[resourceName]
		}
	default:
		return "", fmt.Errorf("resource %q cannot be read into a variable", ref.Resource)
	}
	return divide(q, ref.Divisor, resourceName == corev1.ResourceCPU), nil
}

func (d *Driver) limitOf(pod *corev1.Pod, container *corev1.Container, name corev1.ResourceName) resource.Quantity {
	if q, ok := container.Resources.Limits[name]; ok && !q.IsZero() {
		return q
	}
	if pod.Spec.Resources != nil {
		if q := pod.Spec.Resources.Limits[name]; !q.IsZero() && resourcehelper.IsSupportedPodLevelResource(name) {
			return q
		}
	}
	if d.opts.Allocatable == nil {
		return resource.Quantity{}
	}
	return d.opts.Allocatable()[name]
}

func divide(q, divisor resource.Quantity, milli bool) string {
	value, by := resources.Bytes(&q), resources.Bytes(&divisor)
	if milli {
		value, by = resources.Millis(&q), resources.Millis(&divisor)
	}
	if divisor.IsZero() || by <= 0 {
		by = 1
		if milli {
			by = cgroup.MilliPerCPU
		}
	}
	n := value / by
	if value%by > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}
