package volume

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestTheTypeOfAHostPathIsCheckedAgain(t *testing.T) {
	dir := func(t *testing.T, path string) { t.Helper(); must.OK(t, os.Mkdir(path, 0o700)) }
	file := func(t *testing.T, path string) { t.Helper(); must.OK(t, os.WriteFile(path, nil, 0o600)) }
	socket := func(t *testing.T, path string) {
		t.Helper()
		l, err := net.Listen("unix", path)
		must.OK(t, err)
		t.Cleanup(func() { _ = l.Close() })
	}
	null := func(t *testing.T, path string) { t.Helper(); must.OK(t, os.Symlink("/dev/null", path)) }
	for kind, c := range map[corev1.HostPathType]struct {
		create, other func(*testing.T, string)
		name          string
		creates       bool
	}{
		corev1.HostPathSocket:            {socket, dir, "a socket file", false},
		corev1.HostPathFile:              {file, dir, "a file", false},
		corev1.HostPathDirectory:         {dir, file, "a directory", false},
		corev1.HostPathCharDev:           {null, dir, "a character device", false},
		corev1.HostPathBlockDev:          {nil, dir, "a block device", false},
		corev1.HostPathFileOrCreate:      {file, dir, "a file", true},
		corev1.HostPathDirectoryOrCreate: {dir, file, "a directory", true},
	} {
		t.Run(string(kind), func(t *testing.T) {
			d, _, root := newTest(t)
			path := filepath.Join(root, "p")
			pod := podWith(volumeOf("v", corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
			}))
			if c.create != nil {
				c.create(t, path)
				must.OK(t, d.Check(t.Context(), pod, "v"))
				must.OK(t, os.Remove(path))
			}
			err := d.Check(t.Context(), pod, "v")
			if _, there := os.Lstat(path); c.creates != (err == nil) || c.creates != (there == nil) {
				t.Errorf("gone: %v, and at the path: %v", err, there)
			}
			if err != nil && !strings.Contains(err.Error(), path+" is not "+c.name) {
				t.Errorf("path or type is not in %q", err)
			}
			_ = os.Remove(path)
			c.other(t, path)
			if err := d.Check(t.Context(), pod, "v"); err == nil {
				t.Error("of another type: no error")
			}
		})
	}
	t.Run("without a type", func(t *testing.T) {
		d, _, root := newTest(t)
		path := filepath.Join(root, "p")
		kind := corev1.HostPathUnset
		pod := podWith(volumeOf("v", corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
		}))
		must.OK(t, d.Check(t.Context(), pod, "v"))
		if _, err := os.Lstat(path); err == nil {
			t.Error("the agent has created it")
		}
	})
}

// What goes is the directory, what is mounted there, or the link to the contents.
func TestAVolumeThatIsGoneIsFoundAndSetUpAgain(t *testing.T) {
	items := []corev1.DownwardAPIVolumeFile{
		{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	}
	downward := volumeOf("v", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}})
	unmount := func(m *fakeMounts, path string) error { return m.unmount(path) }
	remove := func(_ *fakeMounts, path string) error { return os.RemoveAll(path) }
	for name, c := range map[string]struct {
		source corev1.Volume
		lose   func(*fakeMounts, string) error
	}{
		"directory":        {emptyDir("v", "", ""), remove},
		"memory unmounted": {emptyDir("v", corev1.StorageMediumMemory, ""), unmount},
		"files unmounted":  {downward, unmount},
		"files removed": {downward, func(_ *fakeMounts, path string) error {
			return os.RemoveAll(filepath.Join(path, dataLink))
		}},
		"files are a file": {downward, func(_ *fakeMounts, path string) error {
			link := filepath.Join(path, dataLink)
			return errors.Join(os.Remove(link), os.Symlink("name", link), os.Remove(filepath.Join(path, "name")),
				os.WriteFile(filepath.Join(path, "name"), nil, 0o600))
		}},
		"another file system": {downward, func(m *fakeMounts, path string) error {
			m.points[0].fsType = "ext4"
			return nil
		}},
		"directory is a file": {emptyDir("v", "", ""), func(_ *fakeMounts, path string) error {
			must.OK(t, os.Remove(path))
			return os.WriteFile(path, nil, 0o600)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, m, _ := newTest(t)
			pod := podWith(c.source)
			must.OK(t, setUp(t, d, pod))
			must.OK(t, d.Check(t.Context(), pod, "v"))
			path, err := d.Path(pod, "v")
			must.OK(t, err)
			must.OK(t, c.lose(m, path))
			if err := d.Check(t.Context(), pod, "v"); err == nil {
				t.Error("it is gone, and nobody notices")
			}
			if name == "directory is a file" || name == "another file system" {
				return // the agent did not create or mount it, and does not remove it
			}
			must.OK(t, setUp(t, d, pod))
			must.OK(t, d.Check(t.Context(), pod, "v"))
		})
	}
	t.Run("CSI", func(t *testing.T) {
		fake := &drivers{root: t.TempDir()}
		d := New(Options{RootDir: fake.root, CSI: fake, PodLogDir: t.TempDir(), ContainerLogDir: t.TempDir()})
		d.SetUp(t.Context(), csiPod(), &journaletv1.SetUpVolumes{})
		must.OK(t, d.Check(t.Context(), csiPod(), "disk"))
		if fake.lost = true; d.Check(t.Context(), csiPod(), "disk") == nil {
			t.Error("it is gone, and nobody notices")
		}
	})
}
