//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// loopBytes is the size of a disk with ext4, which needs some MiB with its journal.
const loopBytes = 64 << 20

// disk returns a blank block device.
func disk(t *testing.T) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must.OK(t, err)
	defer file.Close()
	must.OK(t, file.Truncate(loopBytes))
	loop, err := fakecsi.Loop(file, unix.LO_FLAGS_AUTOCLEAR)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, loop.Close()) })
	return loop.Name()
}

// contents waits until a file of a volume of a pod has a text.
func (s *storage) contents(text string) {
	s.T.Helper()
	node.Eventually(s.T, settle, "the volume to have its file", func() error {
		all, err := filepath.Glob(filepath.Join(s.Root, "pods/*/volumes/kubernetes.io~csi/*/mount/file"))
		if err != nil || len(all) != 1 {
			return fmt.Errorf("files are %v (%v)", all, err) //nolint:errorlint // it may be nil
		}
		b, err := os.ReadFile(all[0])
		if err == nil && string(b) != text {
			err = fmt.Errorf("it has %q", b)
		}
		return err
	})
}

// The node's own programs, and the kernel's ext4: a blank disk is formatted for the first pod, and mounted for the
// second one with what the first has written. The agent is killed while the disk is mounted.
func TestALocalVolumeOnABlankDiskOverAKillOfTheAgent(t *testing.T) {
	t.Parallel()
	s := newStorage(t)
	s.start()
	device := disk(t)
	source := s.claim("data", func(pv *corev1.PersistentVolume) {
		pv.Spec.CSI, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: device}
		pv.Spec.MountOptions = []string{"noatime"}
	})
	s.run("writer", "echo kept >/v/file; "+idle, source)
	s.contents("kept\n")
	s.mounted(2) // for all pods, and for this one
	s.restartAll()
	s.mounted(2)
	s.deleted("writer")
	s.nothingLeft()
	s.run("reader", "cat /v/file; "+idle, source)
	s.contents("kept\n")
	s.deleted("reader")
	s.nothingLeft()
}
