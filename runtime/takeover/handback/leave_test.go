package handback

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/test/must"
)

// After Leave no agent has begun in the root directory, and the journal can still be read.
func TestRootDirectoryThatWasLeftIsAKubelets(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(root, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, journal := range []string{"first", "second"} {
		write(own.Bus+"/jetstream/1.blk", journal)
		write(own.VolumesBoot, "boot\n")
		write(own.EventsCursor, "7")
		write("pods/u1/resources", "{}")
		write("pods/u1/etc-hosts", "")
		must.OK(t, os.MkdirAll(filepath.Join(root, "pods/u2"), 0o700))
		for range 2 { // the second time nothing is to be done
			at, err := Leave(t.Context(), root)
			must.OK(t, err)
			got, err := os.ReadFile(filepath.Join(at, "jetstream/1.blk"))
			if must.OK(t, err); string(got) != journal {
				t.Errorf("the journal at %s is the %s one, want the %s", at, got, journal)
			}
		}
		if volume.Known(root) {
			t.Error("an agent has begun here")
		}
		for name, there := range map[string]bool{
			own.Bus: false, own.EventsCursor: false, "pods/u1/resources": false, "pods/u1/etc-hosts": true, "pods/u2": true,
		} {
			if _, err := os.Lstat(filepath.Join(root, name)); errors.Is(err, fs.ErrNotExist) == there {
				t.Errorf("%s: %v, want there %t", name, err, there)
			}
		}
	}
}

// What a crash has left undone is done by the next attempt: the journal goes last.
func TestJournalStaysUntilTheRestIsDone(t *testing.T) {
	root := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(root, own.Bus), 0o700))
	must.OK(t, os.MkdirAll(filepath.Join(root, "pods/u1/resources/x"), 0o700)) // no file, and not empty
	if _, err := Leave(t.Context(), root); err == nil {
		t.Fatal("what cannot be removed is no error")
	}
	if _, err := os.Lstat(filepath.Join(root, own.Bus)); err != nil {
		t.Errorf("the journal: %v", err)
	}
	must.OK(t, os.RemoveAll(filepath.Join(root, "pods/u1/resources")))
	_, err := Leave(t.Context(), root)
	must.OK(t, err)
}
