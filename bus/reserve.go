package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	reserveFile = "RESERVE"
	// reserveBytes is the room kept back for a full disk: enough for thousands of records, a set of
	// snapshots and what the store itself writes when it is opened again.
	reserveBytes = 4 << 20
	// reserveRoom is how much must be free before the reserve is made again: it may not be what fills the disk.
	reserveRoom = 4 * reserveBytes
	// reserveLow is how little free space counts as none.
	reserveLow = 64 << 10
	// reserveAgain is how often it is tried, while there is something to store.
	reserveAgain = 10 * time.Second
)

// reserve is room on the disk that is kept back, so that the agent can write its last words on a disk
// that others have filled: released when appending fails for want of space, made again when there is room.
type reserve struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	held  bool
	tried time.Time
}

// newReserve makes the reserve, if there is room. To be without it is no error.
func newReserve(dir string, log *slog.Logger) *reserve {
	r := &reserve{path: filepath.Join(dir, reserveFile), log: log}
	if allocated(r.path) {
		r.held = true
		return r
	}
	r.restore()
	return r
}

// allocated tells whether all of the file really has its place on the disk.
func allocated(path string) bool {
	const blockUnit = 512 // of Stat_t.Blocks, whatever the disk's
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Size == reserveBytes && st.Blocks*blockUnit >= reserveBytes
}

// release gives the room free if the disk is full. It tells whether it did.
func (r *reserve) release(cause error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held || !r.full(cause) {
		return false
	}
	// Gone from the folder is not free yet, should somebody have the file open: so cut it first.
	if err := errors.Join(os.Truncate(r.path, 0), os.Remove(r.path)); err != nil {
		r.log.Error("the disk is full, and the room kept back for that cannot be released", "err", err)
		return false
	}
	r.held, r.tried = false, time.Now()
	r.log.Warn("the disk is full: the room kept back for the journal is in use now; free some space", "bytes", reserveBytes, "folder", filepath.Dir(r.path))
	return true
}

// full tells a full disk by the error, or where the store does not name it, by asking.
func (r *reserve) full(cause error) bool {
	if errors.Is(cause, unix.ENOSPC) || strings.Contains(cause.Error(), unix.ENOSPC.Error()) {
		return true
	}
	free, err := r.free()
	return err == nil && free < reserveLow
}

func (r *reserve) free() (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(r.path), &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// restore makes the reserve again if it is out, there is room, and it was not just tried.
func (r *reserve) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held || time.Since(r.tried) < reserveAgain {
		return
	}
	r.tried = time.Now()
	if free, err := r.free(); err != nil || free < reserveRoom {
		return
	}
	if err := r.make(); err != nil {
		r.log.Warn("no room could be kept back for a full disk", "err", errors.Join(err, os.Remove(r.path)))
		return
	}
	r.held = true
}

func (r *reserve) make() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, reserveBytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = f.Write(make([]byte, reserveBytes))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("make %s: %w", r.path, err)
	}
	return nil
}
