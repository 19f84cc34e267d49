package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	criobjects "github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/pod/storage/quota"
)

const (
	// runtimeTimeout bounds a request for usage. The runtime answers from memory.
	runtimeTimeout = 10 * time.Second
	// hostsFile is the pod's hosts file in its directory. The names of replaced hosts files begin with it.
	hostsFile = "etc-hosts"
	// messagesDir has a directory of termination messages for each container, in the pod's directory.
	messagesDir = "containers"
)

// sample measures a pod once. With an error it is what could be measured.
func (d *Driver) sample(ctx context.Context, pod *corev1.Pod, l *Limits) (*Sample, error) {
	s := &Sample{Volumes: map[string]int64{}, Layers: map[string]int64{}, Logs: map[string]int64{}}
	var failed []error
	for _, v := range l.Volumes {
		used, err := d.volume(ctx, pod, v, l)
		failed = append(failed, err)
		s.Volumes[v.Name] = used
	}
	if l.Pod != nil || len(l.Containers) > 0 {
		failed = append(failed, d.logs(ctx, pod, l, s), d.layers(ctx, string(pod.UID), s), d.addProvided(ctx, pod, l, s))
		hosts, err := d.Hosts(ctx, pod)
		failed = append(failed, err)
		s.Other += hosts.FileBytes
	}
	return s, errors.Join(failed...)
}

// volume measures a volume. One that exceeds its limit, or else the pod's, is not measured to its end.
func (d *Driver) volume(ctx context.Context, pod *corev1.Pod, v VolumeLimit, l *Limits) (int64, error) {
	path, err := d.opts.Path(pod, v.Name)
	if err != nil {
		return 0, err
	}
	if v.Memory {
		return memory(path)
	}
	if mapped(pod) {
		if used, ok := quota.Used(path); ok {
			return used, nil
		}
	}
	atMost := v.Limit
	if atMost == nil {
		atMost = l.Pod
	}
	u, err := d.tree(ctx, path, atMost.Value())
	return u.Bytes(), err
}

// Prepare lets the project quota of a file system measure a new, empty volume, where it can. It is for pods with a user
// namespace: others could give their files to another project.
func Prepare(pod *corev1.Pod, volume, dir string, log *slog.Logger) {
	limits := LimitsOf(pod)
	if !mapped(pod) || !slices.ContainsFunc(limits.Volumes, func(v VolumeLimit) bool { return v.Name == volume }) {
		return
	}
	err := quota.Assign(dir, string(pod.UID)+"/"+volume)
	if err != nil && !errors.Is(err, quota.ErrUnsupported) {
		log.Warn("cannot measure a volume by project quota; its tree is walked", "pod", pod.UID, "error", err)
	}
}

// mapped reports whether a pod has a user namespace of its own.
func mapped(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// tree measures a tree within the share of walks. The directory that holds it is the agent's own.
func (d *Driver) tree(ctx context.Context, path string, atMost int64) (bounded.Usage, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return bounded.Usage{}, nil
	}
	if err != nil {
		return bounded.Usage{}, err
	}
	defer root.Close()
	return bounded.DiskUsage(ctx, root, filepath.Base(path), atMost, d.pace)
}

func (d *Driver) pace(ctx context.Context, spent time.Duration) error {
	return d.walks.WaitN(ctx, int(min(spent, burst).Microseconds()))
}

// memory returns what a file system in memory holds; 0 while it is not mounted.
func memory(path string) (int64, error) {
	var own, above unix.Stat_t
	err := errors.Join(unix.Lstat(path, &own), unix.Lstat(filepath.Dir(path), &above))
	if errors.Is(err, fs.ErrNotExist) || err == nil && own.Dev == above.Dev {
		return 0, nil
	}
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(path, &st)
	}
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", path, err)
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, nil
}

// logs measures the logs and termination messages of a pod.
func (d *Driver) logs(ctx context.Context, pod *corev1.Pod, l *Limits, s *Sample) error {
	all, err := d.Logs(ctx, pod, "")
	failed := []error{err}
	s.Other += all.FileBytes
	for _, c := range l.Containers {
		u, err := d.Logs(ctx, pod, c.Name)
		failed = append(failed, err)
		s.Logs[c.Name] = u.FileBytes
		s.Other -= min(s.Other, u.FileBytes)
	}
	return errors.Join(failed...)
}

// addProvided adds what the runtime has provided for a pod: a container's to its writable layer, which is on the same
// file system. It follows layers.
func (d *Driver) addProvided(ctx context.Context, pod *corev1.Pod, l *Limits, s *Sample) error {
	var atMost int64
	if l.Pod != nil {
		atMost = l.Pod.Value()
	}
	provided, err := d.Provided(ctx, string(pod.UID), atMost)
	for name, u := range provided.Containers {
		s.Layers[name] += u.Bytes()
	}
	s.Other += provided.Pod.Bytes()
	return err
}

// layers asks the runtime for the writable layer of the newest instance of each container.
func (d *Driver) layers(ctx context.Context, uid string, s *Sample) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	own, err := d.ownImageFS(ctx, uid)
	if err != nil {
		return err
	}
	s.OwnImageFS = own
	list, err := d.runtime.ListContainerStats(ctx, &cri.ListContainerStatsRequest{Filter: &cri.ContainerStatsFilter{
		LabelSelector: map[string]string{criobjects.LabelPodUID: uid},
	}})
	if err != nil {
		return fmt.Errorf("usage of the containers' writable layers: %w", err)
	}
	newest := map[string]uint32{}
	for _, c := range list.GetStats() {
		name, attempt := c.GetAttributes().GetMetadata().GetName(), c.GetAttributes().GetMetadata().GetAttempt()
		if last, seen := newest[name]; !seen || attempt >= last {
			newest[name] = attempt
			s.Layers[name] = int64(c.GetWritableLayer().GetUsedBytes().GetValue())
		}
	}
	return nil
}

// ownImageFS reports whether images have another file system than pods. The runtime is asked once.
func (d *Driver) ownImageFS(ctx context.Context, uid string) (bool, error) {
	d.mu.Lock()
	dir := d.imageDir
	d.mu.Unlock()
	if dir == "" {
		info, err := d.images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{})
		if err != nil {
			return false, fmt.Errorf("file system of the images: %w", err)
		}
		if all := info.GetImageFilesystems(); len(all) > 0 {
			dir = all[0].GetFsId().GetMountpoint()
		}
		d.mu.Lock()
		d.imageDir = dir
		d.mu.Unlock()
	}
	var images, pods unix.Stat_t
	if err := unix.Stat(dir, &images); errors.Is(err, fs.ErrNotExist) {
		return true, nil // the runtime has a file system that this process has not
	}
	if err := errors.Join(unix.Stat(dir, &images), unix.Stat(d.opts.PodDir(uid), &pods)); err != nil {
		return false, fmt.Errorf("file system of the images: %w", err)
	}
	return images.Dev != pods.Dev, nil
}
