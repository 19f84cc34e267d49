package hostpath

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// Between the check and the creation of a hostPath, a container may put a FIFO there. To open it would wait for good.
func TestFIFOInPlaceOfAHostFileIsNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must.OK(t, unix.Mkfifo(path, 0o600))
	if err := createHostFile(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
}
