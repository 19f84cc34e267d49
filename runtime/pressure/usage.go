package pressure

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/storage"
)

// UsageOf returns the ranking inputs of the pods of a summary, by UID. manifest returns a pod's manifest; nil: it is
// not known.
func UsageOf(s *api.Summary, signal pressure.Signal, manifest func(uid string) *corev1.Pod) []*journaletv1.PodUsage {
	out := make([]*journaletv1.PodUsage, 0, len(s.Pods))
	for i := range s.Pods {
		p := &s.Pods[i]
		if m := manifest(p.PodRef.UID); m != nil {
			out = append(out, usageOf(p, m, signal))
		}
	}
	slices.SortFunc(out, func(a, b *journaletv1.PodUsage) int { return cmp.Compare(a.GetUid(), b.GetUid()) })
	return out
}

func usageOf(p *api.PodStats, m *corev1.Pod, signal pressure.Signal) *journaletv1.PodUsage {
	u := &journaletv1.PodUsage{Uid: p.PodRef.UID}
	if p.Memory != nil {
		u.MemoryBytes = value(p.Memory.WorkingSetBytes)
	}
	if p.ProcessStats != nil {
		u.Processes = value(p.ProcessStats.ProcessCount)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Rootfs != nil {
			u.LayerBytes += value(c.Rootfs.UsedBytes)
			u.LayerInodes += value(c.Rootfs.InodesUsed)
		}
		if c.Logs != nil {
			u.LocalBytes += value(c.Logs.UsedBytes)
			u.LocalInodes += value(c.Logs.InodesUsed)
		}
		if x := excess(c, m, signal); x != nil {
			u.Containers = append(u.Containers, x)
		}
	}
	for i := range p.VolumeStats {
		v := &p.VolumeStats[i]
		if slices.ContainsFunc(m.Spec.Volumes, func(x corev1.Volume) bool { return x.Name == v.Name && storage.Local(&x) }) {
			u.LocalBytes += value(v.UsedBytes)
			u.LocalInodes += value(v.InodesUsed)
		}
	}
	// The rest is what its containers share, such as the hosts file, and logs of containers that are gone.
	if all := p.EphemeralStorage; all != nil {
		u.LocalBytes = max(u.LocalBytes, value(all.UsedBytes)-u.LayerBytes)
		u.LocalInodes = max(u.LocalInodes, value(all.InodesUsed)-u.LayerInodes)
	}
	u.OwnRequest = ownRequest(p, m, signal)
	return u
}

// ownRequest returns what a pod requests by spec.resources and uses of memory, for its message; nil without such a
// request, or for another signal. The kubelet names a pod that uses less, too (evictionMessage).
func ownRequest(p *api.PodStats, m *corev1.Pod, signal pressure.Signal) *journaletv1.PodRequest {
	if signal.Resource() != corev1.ResourceMemory || m.Spec.Resources == nil || p.Memory == nil {
		return nil
	}
	request, ok := m.Spec.Resources.Requests[corev1.ResourceMemory]
	if !ok {
		return nil
	}
	used := resource.NewQuantity(value(p.Memory.WorkingSetBytes), resource.BinarySI)
	return &journaletv1.PodRequest{Name: m.Name, Used: used.String(), Request: request.String()}
}

func value(n *uint64) int64 {
	if n == nil {
		return 0
	}
	return signed(*n)
}

// excess returns a container that uses more than it requests of what is short; nil for another one. Of storage its
// layer and its logs count, of others than memory and storage nothing does (kubelet: evictionMessage).
func excess(c *api.ContainerStats, m *corev1.Pod, signal pressure.Signal) *journaletv1.ContainerExcess {
	var used int64
	name := signal.Resource()
	switch {
	case name == corev1.ResourceMemory && c.Memory != nil:
		used = value(c.Memory.WorkingSetBytes)
	case name == corev1.ResourceEphemeralStorage && c.Rootfs != nil && c.Logs != nil:
		used = value(c.Rootfs.UsedBytes) + value(c.Logs.UsedBytes)
	default:
		return nil
	}
	for own := range containers.WithoutEphemeral(m) { // one without requests is not to blame for that
		request := own.Resources.Requests[name]
		if own.Name == c.Name && request.CmpInt64(used) < 0 {
			return &journaletv1.ContainerExcess{
				Container: c.Name, Used: resource.NewQuantity(used, resource.BinarySI).String(), Request: request.String(),
			}
		}
	}
	return nil
}
