package stats

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/storage"
)

// podFiles are the measurements of one pod's files, in the order of its manifest.
type podFiles struct {
	volumes  []volumeMemo
	logs     map[string]*memo[bounded.Usage]
	podLogs  *memo[bounded.Usage]
	hosts    *memo[bounded.Usage]
	provided *memo[storage.Provided]
}

type volumeMemo struct {
	*corev1.Volume
	memo *memo[storage.Measured]
}

// filesOf returns the measurements of a pod's files.
func (s *Stats) filesOf(p *podReading) podFiles {
	f := podFiles{logs: map[string]*memo[bounded.Usage]{}}
	m := p.Manifest
	for i := range m.Spec.Volumes {
		v := &m.Spec.Volumes[i]
		if s.opts.VolumePeriod > 0 && v.HostPath == nil && v.Image == nil {
			f.volumes = append(f.volumes, volumeMemo{v, s.volume(m, v)})
		}
	}
	for _, c := range p.Containers {
		f.logs[c.Name] = s.file(m, "logs/"+c.Name, func(ctx context.Context, p *corev1.Pod) (bounded.Usage, error) {
			return s.opts.Storage.Logs(ctx, p, c.Name)
		})
	}
	f.podLogs = s.file(m, "logs", func(ctx context.Context, p *corev1.Pod) (bounded.Usage, error) {
		return s.opts.Storage.Logs(ctx, p, "")
	})
	f.hosts = s.file(m, "hosts", s.opts.Storage.Hosts)
	f.provided = s.provided(m)
	return f
}

func (f *podFiles) start(now time.Time) {
	for _, v := range f.volumes {
		v.memo.start(now)
	}
	for _, m := range f.logs {
		m.start(now)
	}
	f.podLogs.start(now)
	f.hosts.start(now)
	f.provided.start(now)
}

// startFiles begins all measurements that are due, so that none waits for another, and forgets the measurements of pods
// that ended.
func (s *Stats) startFiles(r *reading) {
	now := s.opts.Now()
	uids := map[string]bool{}
	for i := range r.pods {
		f := s.filesOf(&r.pods[i])
		f.start(now)
		uids[string(r.pods[i].Manifest.UID)] = true
	}
	s.disks.keep(uids)
}

// addFilesystems fills in what a pod's files take: layers, logs, volumes, and the sum of what is on the node.
func (s *Stats) addFilesystems(wait context.Context, out *api.PodStats, p *podReading) {
	now := s.opts.Now()
	f := s.filesOf(p)
	node, nodeAt, nodeOK := s.nodeFS.get(wait, now)
	layers, _, _ := s.layers.get(wait, now)
	images, _, _ := s.imageFS.get(wait, now)
	total := api.FsStats{Time: metav1.NewTime(nodeAt)}
	if nodeOK {
		total = *filesystem(node.fs, nodeAt)
	}
	use := func(at metav1.Time, bytes, inodes *uint64) {
		total.Time = later(total.Time, at)
		total.UsedBytes, total.InodesUsed = add(total.UsedBytes, bytes), add(total.InodesUsed, inodes)
	}
	provided, providedAt, providedOK := f.provided.get(wait, now)
	var ofContainers bounded.Usage
	for i := range out.Containers {
		c := &out.Containers[i]
		if l, ok := layers[p.Containers[i].ID]; ok {
			c.Rootfs = renderLayer(&l, &images, provided.Containers[c.Name])
			use(c.Rootfs.Time, c.Rootfs.UsedBytes, c.Rootfs.InodesUsed)
		}
		if u, at, ok := f.logs[c.Name].get(wait, now); ok {
			c.Logs = used(u, at, node.fs)
			use(c.Logs.Time, c.Logs.UsedBytes, c.Logs.InodesUsed)
			ofContainers.FileBytes += u.FileBytes
			ofContainers.Inodes += u.Inodes
		}
	}
	for _, v := range f.volumes {
		m, at, ok := v.memo.get(wait, now)
		if !ok {
			continue
		}
		one := renderVolume(p.Manifest, v.Volume, &m, at)
		if storage.Local(v.Volume) {
			use(one.Time, one.UsedBytes, one.InodesUsed)
		}
		out.VolumeStats = append(out.VolumeStats, one)
	}
	if u, at, ok := f.podLogs.get(wait, now); ok { // logs that belong to no container
		rest := uint64(max(0, u.FileBytes-ofContainers.FileBytes))
		use(metav1.NewTime(at), &rest, nil)
	}
	if u, at, ok := f.hosts.get(wait, now); ok {
		bytes, inodes := uint64(u.FileBytes), uint64(u.Inodes)
		use(metav1.NewTime(at), &bytes, &inodes)
	}
	if providedOK {
		bytes, inodes := uint64(provided.Pod.FileBytes), uint64(provided.Pod.Inodes)
		use(metav1.NewTime(providedAt), &bytes, &inodes)
	}
	out.EphemeralStorage = &total
}

// used returns what a tree on the node's file system takes.
func used(u bounded.Usage, at time.Time, node *storage.FileSystem) *api.FsStats {
	out := &api.FsStats{Time: metav1.NewTime(at)}
	if node != nil {
		out = filesystem(node, at)
	}
	bytes, inodes := uint64(u.FileBytes), uint64(u.Inodes)
	out.UsedBytes, out.InodesUsed = &bytes, &inodes
	return out
}

// renderLayer returns what a container's writable layer takes, with the volumes that its image declares.
func renderLayer(l *layer, images *imageFS, volumes bounded.Usage) *api.FsStats {
	out := &api.FsStats{Time: metav1.NewTime(l.at)}
	if fs := images.images.fs; fs != nil {
		out = filesystem(fs, l.at)
	}
	bytes, inodes := uint64(volumes.Bytes()), uint64(volumes.Inodes)
	out.UsedBytes, out.InodesUsed = l.bytes, l.inodes
	if bytes > 0 {
		out.UsedBytes, out.InodesUsed = add(l.bytes, &bytes), add(l.inodes, &inodes)
	}
	return out
}

func renderVolume(p *corev1.Pod, v *corev1.Volume, m *storage.Measured, at time.Time) api.VolumeStats {
	fs := filesystem(&m.FS, at)
	bytes, inodes := uint64(max(0, m.Bytes)), uint64(max(0, m.Inodes))
	fs.UsedBytes, fs.InodesUsed = &bytes, &inodes
	return api.VolumeStats{FsStats: *fs, Name: v.Name, PVCRef: claimOf(p, v)}
}

// claimOf returns the claim of a volume, nil for one without a claim.
func claimOf(p *corev1.Pod, v *corev1.Volume) *api.PVCReference {
	switch {
	case v.PersistentVolumeClaim != nil:
		return &api.PVCReference{Name: v.PersistentVolumeClaim.ClaimName, Namespace: p.Namespace}
	case v.Ephemeral != nil:
		return &api.PVCReference{Name: ephemeral.VolumeClaimName(p, v), Namespace: p.Namespace}
	}
	return nil
}
