package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Limits are the limits of one pod. The zero value is of a pod that sets none.
type Limits struct {
	// Volumes are its volumes that count, with or without a limit, in the order of the manifest.
	Volumes []VolumeLimit
	// Pod is the sum of the containers' limits, as the kubelet computes it; nil if no container has one.
	Pod *resource.Quantity
	// Containers are the main containers and sidecars that have a limit, in the order of the manifest.
	Containers []ContainerLimit
}

// VolumeLimit is an emptyDir or a ConfigMap volume.
type VolumeLimit struct {
	Name string
	// Limit is the sizeLimit; nil: none.
	Limit *resource.Quantity
	// Memory means that the volume is a file system of its own, which counts for its own limit only.
	Memory bool
}

// ContainerLimit is a container's limit of ephemeral-storage.
type ContainerLimit struct {
	Name  string
	Limit *resource.Quantity
}

// LimitsOf returns what a manifest limits, of any pod: that a critical one is not evicted is its actor's decision.
func LimitsOf(p *corev1.Pod) Limits {
	var l Limits
	if all := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{}); all != nil {
		if q, ok := all[corev1.ResourceEphemeralStorage]; ok {
			l.Pod = &q
		}
	}
	for i := range p.Spec.Containers {
		l.addContainer(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			l.addContainer(c)
		}
	}
	for i := range p.Spec.Volumes {
		l.addVolume(&p.Spec.Volumes[i])
	}
	return l
}

func (l *Limits) addContainer(c *corev1.Container) {
	if q := c.Resources.Limits.StorageEphemeral(); !q.IsZero() {
		l.Containers = append(l.Containers, ContainerLimit{c.Name, q})
	}
}

func (l *Limits) addVolume(v *corev1.Volume) {
	limited := VolumeLimit{Name: v.Name}
	switch {
	case v.EmptyDir != nil:
		limited.Memory = v.EmptyDir.Medium != corev1.StorageMediumDefault
		if q := v.EmptyDir.SizeLimit; q != nil && q.Sign() > 0 {
			limited.Limit = q
		}
	case v.ConfigMap == nil:
		return
	}
	// Without a limit of its own a volume counts for the pod's, unless it is in memory.
	if limited.Limit != nil || l.Pod != nil && !limited.Memory {
		l.Volumes = append(l.Volumes, limited)
	}
}

// None reports whether there is nothing to measure.
func (l *Limits) None() bool { return len(l.Volumes) == 0 && l.Pod == nil && len(l.Containers) == 0 }

// Sample is what a pod used at one time, in bytes. Each value may be less than what was in use, never more.
type Sample struct {
	// Volumes is by name, without volumes that do not exist yet.
	Volumes map[string]int64
	// Layers are the writable layers of containers, with the volumes that their images declare, and Logs their log files
	// and termination messages, by name.
	Layers, Logs map[string]int64
	// Other is what containers of the pod share, such as its hosts file, and log files that are no container's.
	Other int64
	// OwnImageFS means that images and writable layers have a file system of their own. Layers then count for the pod, not
	// for their container.
	OwnImageFS bool
}

// Exceeded returns the first limit that a pod exceeds, in the kubelet's order: volumes, the pod, containers. It returns
// nil if the pod exceeds no limit.
func Exceeded(uid string, l *Limits, s *Sample) *journaletv1.StorageExceeded {
	for _, v := range l.Volumes {
		if used := s.Volumes[v.Name]; above(used, v.Limit) {
			return &journaletv1.StorageExceeded{Uid: uid, Volume: v.Name, UsedBytes: used, LimitBytes: v.Limit.Value(),
				Message: fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.Limit.String())}
		}
	}
	if used := s.total(l); above(used, l.Pod) {
		return &journaletv1.StorageExceeded{Uid: uid, UsedBytes: used, LimitBytes: l.Pod.Value(),
			Message: fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", l.Pod.String())}
	}
	for _, c := range l.Containers {
		used := s.Logs[c.Name]
		if !s.OwnImageFS {
			used += s.Layers[c.Name]
		}
		if above(used, c.Limit) {
			return &journaletv1.StorageExceeded{Uid: uid, Container: c.Name, UsedBytes: used, LimitBytes: c.Limit.Value(),
				Message: fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, c.Limit.String())}
		}
	}
	return nil
}

func above(used int64, limit *resource.Quantity) bool {
	return limit != nil && limit.CmpInt64(used) < 0
}

// total returns what counts for the pod's limit.
func (s *Sample) total(l *Limits) int64 {
	sum := s.Other
	for _, v := range l.Volumes {
		if !v.Memory {
			sum += s.Volumes[v.Name]
		}
	}
	for _, byName := range []map[string]int64{s.Layers, s.Logs} {
		for _, bytes := range byName {
			sum += bytes
		}
	}
	return sum
}
