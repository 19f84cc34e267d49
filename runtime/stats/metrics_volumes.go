package stats

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// claimLabels name a PersistentVolumeClaim.
var claimLabels = []string{"namespace", "persistentvolumeclaim"}

// claimFamilies have the names and labels of the kubelet's metrics of volumes.
func claimFamilies() []family[api.FsStats] {
	gauge := func(name, help string, value func(*api.FsStats) *uint64) family[api.FsStats] {
		return family[api.FsStats]{name: name, help: help,
			each: one(func(fs api.FsStats) (float64, bool) {
				n := value(&fs)
				if n == nil {
					return 0, false
				}
				return float64(*n), true
			})}
	}
	return []family[api.FsStats]{
		gauge("kubelet_volume_stats_capacity_bytes", "Size of the claim's volume.",
			func(fs *api.FsStats) *uint64 { return fs.CapacityBytes }),
		gauge("kubelet_volume_stats_available_bytes", "Bytes of the claim's volume that are free for pods.",
			func(fs *api.FsStats) *uint64 { return fs.AvailableBytes }),
		gauge("kubelet_volume_stats_used_bytes", "Bytes of the claim's volume in use.",
			func(fs *api.FsStats) *uint64 { return fs.UsedBytes }),
		gauge("kubelet_volume_stats_inodes", "Inodes that the claim's volume can have.",
			func(fs *api.FsStats) *uint64 { return fs.Inodes }),
		gauge("kubelet_volume_stats_inodes_free", "Free inodes of the claim's volume.",
			func(fs *api.FsStats) *uint64 { return fs.InodesFree }),
		gauge("kubelet_volume_stats_inodes_used", "Inodes of the claim's volume in use.",
			func(fs *api.FsStats) *uint64 { return fs.InodesUsed }),
	}
}

// VolumeMetrics returns what the kubelet exports of volumes on /metrics: of each claim that a running pod has, what the
// Summary has of it, once however many pods have it. A scrape measures what is due of these volumes alone; without
// claims it measures nothing. The values have no time of their own, as the kubelet's.
func (s *Stats) VolumeMetrics() prometheus.Collector {
	c := newCollector(claimLabels, claimFamilies())
	c.collect = func(yield func([]string, time.Time, api.FsStats)) {
		ctx, cancel := context.WithTimeout(context.Background(), s.maxWait)
		defer cancel()
		s.eachClaim(ctx, func(ref api.PVCReference, fs api.FsStats) {
			yield([]string{ref.Namespace, ref.Name}, time.Time{}, fs)
		})
	}
	return c
}

// VolumeCatalog returns the metrics of volumes.
func VolumeCatalog() []Metric { return newCollector(claimLabels, claimFamilies()).catalog() }

// eachClaim calls yield once for each claim that has been measured, with the first pod's volume that was, by namespace
// and name. All that is due is measured at once and beside the answer, which waits for it until wait ends.
func (s *Stats) eachClaim(wait context.Context, yield func(api.PVCReference, api.FsStats)) {
	if s.opts.VolumePeriod < 0 {
		return
	}
	type claimed struct {
		volumeMemo
		pod *Pod
		ref api.PVCReference
	}
	now := s.opts.Now()
	pods := s.opts.Pods()
	sortPods(pods)
	uids := map[string]bool{}
	var all []claimed
	for i := range pods {
		m := pods[i].Manifest
		uids[string(m.UID)] = true
		for j := range m.Spec.Volumes {
			v := &m.Spec.Volumes[j]
			if ref := claimOf(m, v); ref != nil {
				c := claimed{volumeMemo{v, s.volume(m, v)}, &pods[i], *ref}
				c.memo.start(now)
				all = append(all, c)
			}
		}
	}
	s.disks.keep(uids)
	done := map[api.PVCReference]bool{}
	for _, c := range all {
		if done[c.ref] {
			continue
		}
		if m, at, ok := c.memo.get(wait, now); ok {
			done[c.ref] = true
			yield(c.ref, renderVolume(c.pod.Manifest, c.Volume, &m, at).FsStats)
		}
	}
}
