package volume

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// fakeMounts replaces the kernel, so that the tests need no privilege.
type fakeMounts struct {
	points  []mountPoint
	mounted map[string]fileSystem
	busy    bool
}

func (m *fakeMounts) mount(path string, f fileSystem) error {
	m.points = append(m.points, mountPoint{path: path, fsType: f.kind, device: "0:99"})
	if m.mounted == nil {
		m.mounted = map[string]fileSystem{}
	}
	m.mounted[path] = f
	return nil
}

func (m *fakeMounts) kindAt(path string) (string, error) {
	kind := ""
	for _, p := range m.points {
		if p.path == path {
			kind = p.fsType
		}
	}
	return kind, nil
}

func (m *fakeMounts) unmount(path string) error {
	if m.busy {
		return unix.EBUSY
	}
	for i, p := range m.points {
		if p.path == path {
			m.points = append(m.points[:i], m.points[i+1:]...)
			return nil
		}
	}
	return unix.EINVAL
}

func (m *fakeMounts) below(path string) ([]mountPoint, error) {
	var out []mountPoint
	for _, p := range m.points {
		if p.path == path || strings.HasPrefix(p.path, path+"/") {
			out = append(out, p)
		}
	}
	return out, nil
}

func newTest(t *testing.T) (*Driver, *fakeMounts, string) {
	t.Helper()
	dir := t.TempDir()
	d := New(Options{RootDir: dir, PodLogDir: filepath.Join(dir, "logs"), ContainerLogDir: filepath.Join(dir, "links")})
	m := &fakeMounts{}
	d.mounts = m
	return d, m, dir
}

// firstFailure returns the message of the first volume that failed.
func firstFailure(outcomes []*journaletv1.VolumeOutcome) error {
	for _, o := range outcomes {
		if o.GetMessage() != "" {
			return errors.New(o.GetMessage())
		}
	}
	return nil
}

// setUp sets up all volumes of a pod.
func setUp(t *testing.T, d *Driver, pod *corev1.Pod) error {
	t.Helper()
	return firstFailure(d.SetUp(t.Context(), pod, &journaletv1.SetUpVolumes{}))
}

func tearDownPod(t *testing.T, d *Driver, uid string) error {
	t.Helper()
	outcomes, err := d.TearDown(t.Context(), uid)
	return errors.Join(err, firstFailure(outcomes))
}

func clean(ctx context.Context, d *Driver, uid, namespace, name string) error {
	outcomes, err := d.Clean(ctx, uid, namespace, name)
	return errors.Join(err, firstFailure(outcomes))
}

func podWith(volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1"}, Spec: corev1.PodSpec{Volumes: volumes},
	}
}

func emptyDir(name string, medium corev1.StorageMedium, limit string) corev1.Volume {
	e := &corev1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		q := resource.MustParse(limit)
		e.SizeLimit = &q
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: e}}
}

func hostPath(path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: "h",
		VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	must.OK(t, err)
	return info.Mode().Perm()
}

func TestMemoryVolumeIsBoundedByPodAndNode(t *testing.T) {
	d, m, _ := newTest(t)
	d.opts.AllocatableMemory = 1 << 30
	limited := func(memory string, volumes ...corev1.Volume) *corev1.Pod {
		p := podWith(volumes...)
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		if memory != "" {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		}
		return p
	}
	const medium = corev1.StorageMediumMemory
	for name, one := range map[string]struct {
		pod  *corev1.Pod
		want int64
	}{
		"node":           {limited("", emptyDir("node", medium, "")), 1 << 30},
		"pod":            {limited("32Mi", emptyDir("pod", medium, "")), 32 << 20},
		"pod-below-size": {limited("32Mi", emptyDir("pod-below-size", medium, "64Mi")), 32 << 20},
		"size":           {limited("32Mi", emptyDir("size", medium, "16Mi")), 16 << 20},
		"node-below-all": {limited("4Gi", emptyDir("node-below-all", medium, "2Gi")), 1 << 30},
		"size-of-zero":   {limited("", emptyDir("size-of-zero", medium, "0")), 1 << 30},
	} {
		must.OK(t, setUp(t, d, one.pod))
		path, err := d.Path(one.pod, name)
		must.OK(t, err)
		if got := m.mounted[path].sizeBytes; got != one.want {
			t.Errorf("volume %s has %d bytes, want %d", name, got, one.want)
		}
	}
}

func TestEmptyDirsAreCreatedOnceAndRemoved(t *testing.T) {
	d, m, dir := newTest(t)
	pod := podWith(emptyDir("disk", "", ""), emptyDir("mem", corev1.StorageMediumMemory, "64Mi"))
	for range 2 {
		must.OK(t, setUp(t, d, pod))
	}
	disk, err := d.Path(pod, "disk")
	if err != nil || disk != filepath.Join(dir, "pods/u1/volumes/kubernetes.io~empty-dir/disk") || mode(t, disk) != 0o777 {
		t.Fatalf("path %s, %v", disk, err)
	}
	if mode(t, filepath.Join(dir, "pods/u1")) != 0o750 {
		t.Error("the pod's directory is accessible to others")
	}
	mem, _ := d.Path(pod, "mem")
	if len(m.points) != 1 || m.mounted[mem].sizeBytes != 64<<20 {
		t.Errorf("mounts %v %v", m.points, m.mounted)
	}
	// A container leaves a link out of its volume.
	outside := filepath.Join(dir, "precious")
	if err := errors.Join(os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(outside, "f"), nil, 0o600),
		os.Symlink(outside, filepath.Join(disk, "l"))); err != nil {
		t.Fatal(err)
	}
	m.busy = true
	if err := tearDownPod(t, d, "u1"); err == nil || !strings.Contains(err.Error(), unix.EBUSY.Error()) {
		t.Fatalf("a busy volume: %v", err)
	}
	m.busy = false
	for range 2 {
		must.OK(t, tearDownPod(t, d, "u1"))
	}
	if _, err := os.Lstat(filepath.Join(dir, "pods/u1/volumes")); !os.IsNotExist(err) || len(m.points) != 0 {
		t.Errorf("left: %v, %v", err, m.points)
	}
	if _, err := os.Lstat(filepath.Join(outside, "f")); err != nil {
		t.Error("a link was followed")
	}
}

func TestNothingIsRemovedThroughAMount(t *testing.T) {
	d, m, dir := newTest(t)
	pod := podWith(emptyDir("disk", "", ""))
	must.OK(t, setUp(t, d, pod))
	stray := filepath.Join(dir, "pods/u1/volumes/kubernetes.io~empty-dir/disk/inner")
	must.OK(t, errors.Join(os.Mkdir(stray, 0o700), os.WriteFile(filepath.Join(stray, "f"), nil, 0o600)))
	m.points = []mountPoint{{path: stray, fsType: "ext4"}}
	err := clean(t.Context(), d, "u1", "default", "web")
	if err == nil || !strings.Contains(err.Error(), stray) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(stray, "f")); err != nil {
		t.Error("removed through a mount")
	}
}

func TestCleanRemovesLogsAndLinksOfPodOnly(t *testing.T) {
	d, _, dir := newTest(t)
	logs, err := d.CreateLogDir("default", "web", "u1", "main")
	if err != nil || mode(t, logs) != 0o755 {
		t.Fatal(logs, err)
	}
	other, err := d.CreateLogDir("default", "web", "u2", "main")
	must.OK(t, err)
	mine, theirs := filepath.Join(dir, "links/web_default_main-1.log"), filepath.Join(dir, "links/web_default_main-2.log")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "links"), 0o700), os.Symlink(logs+"/0.log", mine),
		os.Symlink(other+"/0.log", theirs), d.CreatePodDirs("u1")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		must.OK(t, clean(t.Context(), d, "u1", "default", "web"))
	}
	for _, gone := range []string{mine, filepath.Dir(logs), filepath.Join(dir, "pods/u1")} {
		if _, err := os.Lstat(gone); !os.IsNotExist(err) {
			t.Errorf("%s is left", gone)
		}
	}
	for _, kept := range []string{theirs, other} {
		if _, err := os.Lstat(kept); err != nil {
			t.Errorf("%s is gone", kept)
		}
	}
}

// The names of a namespace and a pod may be longer together than a file's name. Such a pod never gets logs, and goes.
func TestPodWhoseLogsCanHaveNoDirectoryIsCleaned(t *testing.T) {
	d, _, dir := newTest(t)
	name := strings.Repeat("x", 253)
	if _, err := d.CreateLogDir("default", name, "u1", "main"); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Fatal(err)
	}
	must.OK(t, d.CreatePodDirs("u1"))
	must.OK(t, clean(t.Context(), d, "u1", "default", name))
	if _, err := os.Lstat(filepath.Join(dir, "pods/u1")); !os.IsNotExist(err) {
		t.Error("the directory of the pod is left")
	}
}

// A crash during the clean-up leaves the directory that leads to the rest.
func TestCleanRemovesTheDirectoryOfThePodLast(t *testing.T) {
	d, _, dir := newTest(t)
	_, err := d.CreateLogDir("default", "web", "u1", "main")
	must.OK(t, err)
	must.OK(t, errors.Join(os.RemoveAll(filepath.Join(dir, "logs")), os.WriteFile(filepath.Join(dir, "logs"), nil, 0o600)))
	for _, name := range []string{"web", ""} {
		if err := clean(t.Context(), d, "u1", "default", name); err == nil {
			t.Error("logs that cannot be removed are no failure")
		}
		must.OK(t, d.CreatePodDirs("u1"))
		if _, err := os.Lstat(filepath.Join(dir, "pods/u1/volumes")); err != nil {
			t.Error(err)
		}
	}
}

// A crash while an instance's files are removed leaves the files that lead to the rest.
func TestLinksToLogsAreRemovedBeforeTheLogs(t *testing.T) {
	d, _, dir := newTest(t)
	logs, err := d.CreateLogDir("default", "web", "u1", "main")
	must.OK(t, err)
	_, err = d.CreateTerminationFile("u1", "main", 1)
	must.OK(t, err)
	links := filepath.Join(dir, "links")
	log, rotated, kept := filepath.Join(logs, "1.log"), filepath.Join(logs, "1.log.20261122-160000.gz"),
		filepath.Join(logs, "2.log")
	for _, path := range []string{log, rotated, kept, links} {
		must.OK(t, os.WriteFile(path, nil, 0o600))
	}
	gone := func(attempt uint32) (bool, error) { return attempt < 2, nil }
	remove := func() error { return d.RemoveInstances("default", "web", "u1", "main", gone) }
	if err := remove(); err == nil {
		t.Error("links that cannot be removed are no failure")
	}
	for _, path := range []string{log, rotated} {
		if _, err := os.Lstat(path); err != nil {
			t.Error("the link to it could not be found again:", err)
		}
	}
	link, other := filepath.Join(links, "web_default_main-1.log"), filepath.Join(links, "web_default_main-2.log")
	must.OK(t, errors.Join(os.Remove(links), os.Mkdir(links, 0o700), os.Symlink(log, link), os.Symlink(kept, other)))
	must.OK(t, remove())
	for _, gone := range []string{link, log, rotated, filepath.Join(dir, "pods/u1/containers/main/1")} {
		if _, err := os.Lstat(gone); !os.IsNotExist(err) {
			t.Errorf("%s is left", gone)
		}
	}
	for _, path := range []string{other, kept} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s is gone", path)
		}
	}
}

func TestLinkOfALongNameIsRemoved(t *testing.T) {
	d, _, dir := newTest(t)
	long := strings.Repeat("x", 253) // the longest name of a pod; the name of its link is cut
	logs := filepath.Join(dir, "logs", "default_"+long+"_u1", "main")
	link := filepath.Join(dir, "links", long[:maxLinkBytes]+logExt)
	must.OK(t, errors.Join(os.Mkdir(filepath.Join(dir, "links"), 0o700), os.Symlink(logs+"/0.log", link)))
	must.OK(t, d.removeLinks("default", long, "default_"+long+"_u1"))
	if _, err := os.Lstat(link); !os.IsNotExist(err) {
		t.Error("the link is left")
	}
}

func TestPathNamesAreRefused(t *testing.T) {
	d, _, _ := newTest(t)
	for _, bad := range []string{"", ".", "..", "a/b", "../../x"} {
		if d.CreatePodDirs(bad) == nil {
			t.Errorf("uid %q accepted", bad)
		}
		if _, err := d.CreateTerminationFile("u1", bad, 0); err == nil {
			t.Errorf("container %q accepted", bad)
		}
		if setUp(t, d, podWith(emptyDir(bad, "", ""))) == nil {
			t.Errorf("volume %q accepted", bad)
		}
	}
}

func TestContainersThatStartTogetherShareOneHostsFile(t *testing.T) {
	d, _, _ := newTest(t)
	for i := range 50 {
		uid := fmt.Sprintf("u%d", i)
		var starts errgroup.Group
		var mounted [4]os.FileInfo
		for c := range mounted {
			starts.Go(func() error {
				path, err := d.WriteHosts(uid, []byte("127.0.0.1\tlocalhost\n"))
				if err == nil {
					mounted[c], err = os.Stat(path)
				}
				return err
			})
		}
		must.OK(t, starts.Wait())
		for _, file := range mounted {
			if !os.SameFile(file, mounted[0]) {
				t.Fatalf("pod %s: two containers have mounted two files", uid)
			}
		}
	}
}

func TestMountedFilesAreAccessibleToAllUsers(t *testing.T) {
	d, _, _ := newTest(t)
	defer unix.Umask(unix.Umask(0o077))
	hosts, err := d.WriteHosts("u1", []byte("a"))
	if err != nil || mode(t, hosts) != 0o644 {
		t.Fatal(hosts, err)
	}
	before, _ := os.Stat(hosts)
	if _, err := d.WriteHosts("u1", []byte("b")); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(hosts); !os.SameFile(before, after) {
		t.Error("the mounted hosts file was replaced, not rewritten")
	}
	file, err := d.CreateTerminationFile("u1", "main", 3)
	if err != nil || mode(t, file) != 0o666 || !strings.HasSuffix(file, "/pods/u1/containers/main/3") {
		t.Fatal(file, err)
	}
}

func TestHostPathTypes(t *testing.T) {
	d, _, dir := newTest(t)
	subdir, file, sock := filepath.Join(dir, "d"), filepath.Join(dir, "f"), filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	must.OK(t, err)
	defer l.Close()
	must.OK(t, errors.Join(os.Mkdir(subdir, 0o700), os.WriteFile(file, nil, 0o600)))
	for _, c := range []struct {
		path string
		kind corev1.HostPathType
		says string
	}{
		{"/none", corev1.HostPathUnset, ""},
		{subdir, corev1.HostPathDirectory, ""},
		{file, corev1.HostPathDirectory, "hostPath type check failed: " + file + " is not a directory"},
		{filepath.Join(dir, "new/deep"), corev1.HostPathDirectoryOrCreate, ""},
		{file, corev1.HostPathDirectoryOrCreate, "is not a directory"},
		{file, corev1.HostPathFile, ""},
		{filepath.Join(dir, "nofile"), corev1.HostPathFile, "is not a file"},
		{filepath.Join(dir, "newfile"), corev1.HostPathFileOrCreate, ""},
		{filepath.Join(dir, "no/newfile"), corev1.HostPathFileOrCreate, "create the file"},
		{subdir, corev1.HostPathFileOrCreate, "is not a file"},
		{sock, corev1.HostPathSocket, ""},
		{file, corev1.HostPathSocket, "is not a socket file"},
		{"/dev/null", corev1.HostPathCharDev, ""},
		{"/dev/null", corev1.HostPathBlockDev, "is not a block device"},
		{file, "Nonsense", "Nonsense is an invalid volume type"},
	} {
		err := setUp(t, d, podWith(hostPath(c.path, c.kind)))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: %v, want %q", c.path, c.kind, err, c.says)
		}
	}
	if mode(t, filepath.Join(dir, "new")) != 0o755 || mode(t, filepath.Join(dir, "newfile")) != 0o644 {
		t.Error("a created path has the wrong mode")
	}
}

// What is to be known of a volume before it has a file is done before containers can see it.
func TestNewVolumeIsPreparedOnceAndEmpty(t *testing.T) {
	d, _, _ := newTest(t)
	var got []string
	d.opts.Prepare = func(pod *corev1.Pod, volume, dir string) {
		entries, err := os.ReadDir(dir)
		must.OK(t, err)
		path, err := d.Path(pod, volume)
		must.OK(t, err)
		_, err = os.Lstat(path)
		got = append(got, fmt.Sprint(volume, " ", len(entries), " ", os.IsNotExist(err)))
	}
	pod := podWith(
		corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "memory", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}})
	for range 2 {
		must.OK(t, setUp(t, d, pod))
	}
	if want := "[disk 0 true]"; fmt.Sprint(got) != want {
		t.Errorf("prepared %v, want %s", got, want)
	}
}
