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
	// reserveBytes is disk space kept for when the disk is full: enough for thousands of records, a set of snapshots
	// and what the store itself writes when it is opened again.
	reserveBytes = 4 << 20
	// reserveRoom is how much must be free before the reserve is allocated again: it must not fill the disk itself.
	reserveRoom = 4 * reserveBytes
	// reserveLow is how little free space counts as none.
	reserveLow = 64 << 10
	// reserveRetry is how often allocation is tried again, while records are stored.
	reserveRetry = 10 * time.Second
)

// reserve is disk space kept so that the agent can store its last records on a disk that others have filled. It is
// released when an append fails for lack of space, and allocated again when there is enough.
type reserve struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	held  bool
	tried time.Time
}

// newReserve allocates the reserve, if there is space. To be without it is no error.
func newReserve(dir string, log *slog.Logger) *reserve {
	r := &reserve{path: filepath.Join(dir, reserveFile), log: log}
	if isAllocated(r.path) {
		r.held = true
		return r
	}
	r.restore()
	return r
}

// isAllocated reports whether the file has all its blocks on the disk.
func isAllocated(path string) bool {
	const blockUnit = 512 // of Stat_t.Blocks, whatever the disk's
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Size == reserveBytes && st.Blocks*blockUnit >= reserveBytes
}

// release frees the reserve if the disk is full, and reports whether it did.
func (r *reserve) release(cause error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held || !r.full(cause) {
		return false
	}
	// A removed file that another process has open keeps its blocks, so truncate it first.
	if err := errors.Join(os.Truncate(r.path, 0), os.Remove(r.path)); err != nil {
		r.log.Error("the disk is full, and the space reserved for that cannot be released", "err", err)
		return false
	}
	r.held, r.tried = false, time.Now()
	r.log.Warn("the disk is full: the journal uses its reserved space now; free some space",
		"bytes", reserveBytes, "directory", filepath.Dir(r.path))
	return true
}

// full reports whether the disk is full: by the error, or where the store hides that, by the free space.
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

// restore allocates the reserve again if it was released, there is space, and the last attempt is long enough ago.
func (r *reserve) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held || time.Since(r.tried) < reserveRetry {
		return
	}
	r.tried = time.Now()
	if free, err := r.free(); err != nil || free < reserveRoom {
		return
	}
	if err := r.allocate(); err != nil {
		r.log.Warn("no space could be reserved for a full disk", "err", errors.Join(err, os.Remove(r.path)))
		return
	}
	r.held = true
}

func (r *reserve) allocate() error {
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
		return fmt.Errorf("allocate %s: %w", r.path, err)
	}
	return nil
}
