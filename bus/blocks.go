package bus

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

// blocks forces a stream's files to disk. JetStream writes every message to its block file before it acknowledges it.
// Its own "sync always" then forces each message by itself, one fsync after the other, even where a hundred wait. We
// leave that off and force the file once for all messages that were acknowledged meanwhile: on a disk that takes 10 ms
// for a sync, we store thousands of records a second instead of 100.
//
// Blocks are numbered upwards and only the last one grows. So force syncs the block that was last at the call before,
// and the blocks after it.
type blocks struct {
	dir string

	// sync forces one file; tests put faults into it.
	sync func(path string) error
	// rewritable: the owner calls rewrite after an error, as for the journal's blocks.
	rewritable bool

	mu   sync.Mutex
	last uint64 // 0: not known yet
	// suspect is the lowest block whose sync failed with an I/O error, 0 for none.
	suspect uint64
}

func (b *blocks) path(n uint64) string {
	return filepath.Join(b.dir, strconv.FormatUint(n, 10)+".blk")
}

// force returns once everything written to the stream before the call survives a power cut.
func (b *blocks) force() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.suspect != 0 {
		return errSuspect
	}
	if b.last != 0 {
		err := b.forward()
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		b.last = 0
	}
	return b.all()
}

func (b *blocks) forward() error {
	if err := b.one(b.last); err != nil {
		return err
	}
	for {
		err := b.one(b.last + 1)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := durable.SyncDir(b.dir); err != nil {
			return err
		}
		b.last++
	}
}

// forceAll is force for a stream whose older blocks may have changed: messages were removed.
func (b *blocks) forceAll() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = 0
	return b.all()
}

func (b *blocks) all() error {
	numbers, err := b.numbers()
	if err != nil {
		return fmt.Errorf("force %s to disk: %w", b.dir, err)
	}
	for _, n := range numbers {
		if err := b.one(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		b.last = max(b.last, n)
	}
	return durable.SyncDir(b.dir)
}

// one forces one block. After an I/O error the kernel counts the pages that it could not write as clean, and the next
// sync reports success. So such a block is suspect until it is rewritten.
func (b *blocks) one(n uint64) error {
	force := b.sync
	if force == nil {
		force = syncFile
	}
	err := force(b.path(n))
	if errors.Is(err, unix.EIO) && b.rewritable && (b.suspect == 0 || n < b.suspect) {
		b.suspect = n
	}
	return err
}

// rewrite writes the blocks again whose sync failed, from what the kernel still holds of them. No process may have
// them open. What the kernel has lost shows when the stream is opened.
func (b *blocks) rewrite() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.suspect == 0 {
		return nil
	}
	numbers, err := b.numbers()
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if n < b.suspect {
			continue
		}
		data, err := bounded.ReadFile(b.path(n), maxBlock)
		if err == nil {
			err = durable.Write(b.path(n), data)
		}
		if err != nil {
			return fmt.Errorf("rewrite block %d after a failed sync: %w", n, err)
		}
	}
	b.suspect, b.last = 0, 0
	return nil
}

// readAt returns size bytes of a block from offset at on, fewer at its end.
func (b *blocks) readAt(n uint64, at, size int) ([]byte, error) {
	f, err := bounded.Open(b.path(n))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := make([]byte, min(size, maxFrame))
	got, err := f.ReadAt(out, int64(at))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out[:got], err
}

// numbers returns the numbers of the blocks in ascending order.
func (b *blocks) numbers() ([]uint64, error) {
	var out []uint64
	for f, err := range bounded.Entries(b.dir) {
		if err != nil {
			return nil, err
		}
		name, ok := strings.CutSuffix(f.Name(), ".blk")
		if n, err := strconv.ParseUint(name, 10, 64); ok && err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

var errSuspect = errors.New("a sync of the disk failed; its blocks are rewritten first")

func syncFile(path string) error {
	f, err := bounded.Open(path)
	if err != nil {
		return err
	}
	// fdatasync forces data and size; the file's times are not needed.
	err = unix.Fdatasync(int(f.Fd()))
	if err != nil {
		err = &fs.PathError{Op: "fdatasync", Path: path, Err: err}
	}
	return errors.Join(err, f.Close())
}
