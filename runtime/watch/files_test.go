package watch_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/watch"
	"github.com/journalet/journalet/test/must"
)

// notes is a reader that notes what it is told.
type notes struct {
	said   []string
	refuse bool
}

func (n *notes) Changed(name, _ string, data []byte, _ watch.Stamp) bool {
	n.said = append(n.said, fmt.Sprintf("%s: %s", name, data))
	return !n.refuse
}

func (n *notes) Unreadable(name, _ string, err error) bool {
	n.said = append(n.said, fmt.Sprintf("%s: %s", name, watch.Cause(err)))
	return false
}

func (n *notes) Gone(name string) { n.said = append(n.said, name+" is gone") }

func (n *notes) Known(string) bool { return false }

// followed are files of a directory beside what their reader is told.
type followed struct {
	*testing.T
	*watch.Files
	notes

	dir string
}

// follow returns the files of a directory, read on a clock ahead of the files, so that their stamps are not racy.
func follow(t *testing.T, limit int64) *followed {
	t.Helper()
	f := &followed{T: t, dir: t.TempDir()}
	ahead := func() time.Time { return time.Now().Add(time.Minute) }
	f.Files = watch.NewFiles(watch.Deaf(f.dir, slog.New(slog.DiscardHandler)), limit, ahead, &f.notes)
	return f
}

func (f *followed) at(name string) string { return filepath.Join(f.dir, name) }

// write writes a file, as another than before also if the content is the same.
func (f *followed) write(name, text string) {
	f.Helper()
	must.OK(f, os.WriteFile(f.at("."+name), []byte(text), 0o600))
	must.OK(f, os.Rename(f.at("."+name), f.at(name)))
}

// hears checks what the reader is told by a scan, in any order.
func (f *followed) hears(want ...string) {
	f.Helper()
	f.said = nil
	must.OK(f, f.Scan())
	if slices.Sort(f.said); !slices.Equal(f.said, want) {
		f.Errorf("the reader is told %q, want %q", f.said, want)
	}
}

func TestScanReportsWhatHasChanged(t *testing.T) {
	f := follow(t, 10)
	f.hears()
	f.write("a", "1")
	f.write("b", "1")
	must.OK(t, os.Mkdir(f.at("c"), 0o700))
	f.hears("a: 1", "b: 1", "c is gone")
	f.hears()
	f.write("a", "1")
	f.write("b", "2")
	f.hears("b: 2")
	must.OK(t, os.Chmod(f.at("a"), 0o644))
	f.hears("a: 1") // others may read it now
	must.OK(t, os.Remove(f.at("a")))
	f.write("b", "0123456789more")
	f.hears("a is gone", "b: 0123456789m")
	if f.Has("a") || !f.Has("b") || f.Where("b") != f.at("b") {
		t.Errorf("a is there: %v, b is at %s", f.Has("a"), f.Where("b"))
	}
}

func TestWhatIsNotTakenIsReadAgain(t *testing.T) {
	f := follow(t, 10)
	f.write("a", "1")
	f.refuse = true
	f.hears("a: 1")
	f.hears("a: 1")
	f.refuse = false
	f.hears("a: 1")
	f.hears()
	f.said = nil
	if f.Retake(); !slices.Equal(f.said, []string{"a: 1"}) {
		t.Errorf("taken again: %q", f.said)
	}
}

func TestPathThatIsNoDirectory(t *testing.T) {
	f := follow(t, 10)
	f.write("a", "1")
	f.hears("a: 1")
	f.One = true
	if err := f.Scan(); err == nil || !f.Has("a") {
		t.Errorf("a directory: %v; a is there: %v", err, f.Has("a"))
	}
	must.OK(t, os.RemoveAll(f.dir))
	f.hears("a is gone")
	must.OK(t, unix.Mkfifo(f.dir, 0o600))
	if err := f.Scan(); err == nil {
		t.Error("a pipe is read")
	}
	must.OK(t, os.Remove(f.dir))
	must.OK(t, os.WriteFile(f.dir, []byte("one"), 0o600))
	f.hears(filepath.Base(f.dir) + ": one")
}

func TestDirectoryHasABoundOfFiles(t *testing.T) {
	f := follow(t, 10)
	for i := range watch.MaxNames + 5 {
		must.OK(t, os.WriteFile(f.at(fmt.Sprint(i)), nil, 0o600))
	}
	must.OK(t, f.Scan())
	if f.Len() != watch.MaxNames {
		t.Errorf("%d files", f.Len())
	}
}
