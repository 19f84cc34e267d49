package reset_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/reset"
	"github.com/journalet/journalet/test/must"
)

func optionsFor(root string) reset.Options {
	return reset.Options{
		RootDir: root, Socket: filepath.Join(root, "kubelet.sock"),
		Volumes:  volume.New(volume.Options{RootDir: root, PodLogDir: root + "/l", ContainerLogDir: root + "/c"}),
		Recorded: func(context.Context) (map[string]reset.Recorded, error) { return nil, errors.New("damaged") },
	}
}

// The root directory of a kubelet looks the same, but for the bus.
func TestDirectoryThatNoAgentUsedIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(root, "pods/u1/volumes"), 0o700))
	found, err := reset.Find(t.Context(), optionsFor(root))
	must.OK(t, err)
	if !found.Empty() {
		t.Errorf("found %+v", found)
	}
}

func TestFilesOfOthersInTheRootDirectoryAreNotFound(t *testing.T) {
	root := t.TempDir()
	must.OK(t, errors.Join(os.MkdirAll(filepath.Join(root, "pods/u1/volumes"), 0o700),
		os.MkdirAll(filepath.Join(root, "pods/backup"), 0o700), os.Mkdir(filepath.Join(root, "bus"), 0o700),
		os.Mkdir(filepath.Join(root, "seccomp"), 0o700), os.WriteFile(filepath.Join(root, "volumes.boot"), nil, 0o600),
		os.Mkdir(filepath.Join(root, "pki"), 0o700), os.WriteFile(filepath.Join(root, "pki/kubelet.key"), nil, 0o600),
		os.WriteFile(filepath.Join(root, "pki/kubelet-client-current.pem"), nil, 0o600)))
	l, err := net.Listen("unix", filepath.Join(root, "kubelet.sock"))
	must.OK(t, err)
	defer l.Close()
	o := optionsFor(root)
	dropIn := filepath.Join(t.TempDir(), "99-journalet.conf")
	must.OK(t, os.WriteFile(dropIn, nil, 0o600))
	removed := 0
	o.Outside, o.Removed = []string{dropIn}, func(context.Context) error { removed++; return nil }
	found, err := reset.Find(t.Context(), o)
	must.OK(t, err)
	at := func(names ...string) (paths []string) {
		for _, n := range names {
			paths = append(paths, filepath.Join(root, n))
		}
		return paths
	}
	if len(found.Pods) != 1 || found.Pods[0].UID != "u1" || found.Unread != "damaged" {
		t.Errorf("pods %v, unread %q", found.Pods, found.Unread)
	}
	if want := append([]string{dropIn}, at("bus", "pki/kubelet-client-current.pem", "volumes.boot",
		"kubelet.sock")...); !slices.Equal(found.Files, want) {
		t.Errorf("files %v, want %v", found.Files, want)
	}
	if want := at("pki/kubelet.key", "seccomp"); !slices.Equal(found.Others, want) {
		t.Errorf("of others %v, want %v", found.Others, want)
	}
	o.KeepJournal = true
	found, err = reset.Find(t.Context(), o)
	must.OK(t, err)
	if slices.Contains(found.Files, filepath.Join(root, "bus")) {
		t.Error("the journal is to be removed")
	}
	found.Pods = nil
	if r := reset.Remove(t.Context(), o, found); len(r.Left) > 0 || removed != 1 {
		t.Errorf("left %v, with %d removals outside", r.Left, removed)
	}
	if _, err := os.Lstat(dropIn); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file outside is left: %v", err)
	}
}

// done performs every call.
type done struct{}

func (done) Perform(context.Context, string, string, *journaletv1.CallRequested, bool) *journaletv1.CallFinished {
	return new(journaletv1.CallFinished)
}

func TestRemovedPodsAreReportedOneAfterTheOther(t *testing.T) {
	const pods = 100
	o := optionsFor(t.TempDir())
	o.Calls = done{}
	var writing atomic.Int32
	lines := 0
	o.Progress = func(string) {
		if writing.Add(1) != 1 {
			t.Error("two lines are written at once")
		}
		lines++
		runtime.Gosched()
		writing.Add(-1)
	}
	found := new(reset.Found)
	for i := range pods {
		found.Pods = append(found.Pods, &reset.Pod{UID: strconv.Itoa(i)})
	}
	if r := reset.Remove(t.Context(), o, found); r.Removed != pods || lines != pods {
		t.Errorf("removed %d pods, and reported %d: %v", r.Removed, lines, r.Left)
	}
}

// Secrets, memory of containers and the node's keys must not stay on a disk that somebody else gets.
func TestResetLeavesNothingThatTheAgentCreates(t *testing.T) {
	root := t.TempDir()
	for _, e := range own.All {
		path := filepath.Join(root, strings.ReplaceAll(e.Path, "*", "x"))
		if e.Reset != own.Removed || e.Path == own.Socket {
			continue
		}
		if strings.HasSuffix(e.Path, "/") {
			path = filepath.Join(path, "file")
		}
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("secret"), 0o600)))
	}
	must.OK(t, os.WriteFile(filepath.Join(root, own.ObjectsKey+".damaged"), []byte("secret"), 0o600))
	o := optionsFor(root)
	found, err := reset.Find(t.Context(), o)
	must.OK(t, err)
	if len(found.Others) > 0 {
		t.Errorf("taken for others' files: %v", found.Others)
	}
	if r := reset.Remove(t.Context(), o, found); len(r.Left) > 0 {
		t.Errorf("left: %v", r.Left)
	}
	must.OK(t, filepath.WalkDir(filepath.Dir(root), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("%s is still there", path)
		}
		return err
	}))
}

func TestResetFollowsNoLinkInTheRootDirectory(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	key := filepath.Join(outside, "kubelet-client-current.pem")
	must.OK(t, errors.Join(os.Mkdir(filepath.Join(root, own.Bus), 0o700), os.WriteFile(key, nil, 0o600),
		os.WriteFile(filepath.Join(outside, "kubelet.key"), nil, 0o600),
		os.Symlink(outside, filepath.Join(root, own.Certificates))))
	o := optionsFor(root)
	found, err := reset.Find(t.Context(), o)
	must.OK(t, err)
	reset.Remove(t.Context(), o, found)
	if _, err := os.Lstat(key); err != nil {
		t.Error(err)
	}
}
