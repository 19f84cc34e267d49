package bus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

const (
	headFile = "HEAD"
	// headSlot is the size of the slot of one head. The file has two slots, written alternately, so that a torn write
	// costs the newer of them only. A sector is 512 bytes or more.
	headSlot = 512
	// maxHeadFile bounds what is read of the file.
	maxHeadFile = 2 * headSlot
	// headFrame precedes the encoded head: its length and its CRC-32C.
	headFrame = 8
	// headSyncEvery bounds how far the head on disk may lag behind. The head exists to notice a lost tail; records
	// above it are checked by the hash chain alone.
	headSyncEvery = time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errHeadDamaged: the file is there and no slot of it can be read.
var errHeadDamaged = errors.New("the head file is damaged")

// head keeps the journal's last number and hash beside the stream, because JetStream cuts a damaged tail silently.
// One goroutine writes it; fsync runs in the background.
type head struct {
	f        *os.File
	now      *journaletv1.Head
	nextSlot int64
	synced   time.Time
	syncing  atomic.Bool
	syncFail atomic.Pointer[error]
}

// readHead returns the newest head in the file, nil if there is no file. One of another format is an error.
func readHead(dir string) (*journaletv1.Head, error) {
	b, err := bounded.ReadFile(filepath.Join(dir, headFile), maxHeadFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bus: read the journal's head: %w", err)
	}
	var best *journaletv1.Head
	for at := 0; at < len(b); at += headSlot {
		h := decodeHead(b[at:min(at+headSlot, len(b))])
		if h != nil && (best == nil || newerHead(h, best)) {
			best = h
		}
	}
	if best == nil {
		return nil, errHeadDamaged
	}
	return best, checkFormat(dir, int(best.GetFormat()))
}

// checkFormat refuses a format that this version does not write, be it higher or lower.
func checkFormat(dir string, format int) error {
	if format == messages.JournalFormat {
		return nil
	}
	return fmt.Errorf("bus: the journal in %s has format %d, and this version reads format %d only. Nothing was changed. "+
		"Run a version that reads format %d (journalet version names it), or move %s aside to begin a new journal: "+
		"running pods are adopted as they are", dir, format, messages.JournalFormat, format, dir)
}

// newerHead orders two valid slots. Of two with the same record the clean one was written last.
func newerHead(a, b *journaletv1.Head) bool {
	if a.GetEpoch() != b.GetEpoch() {
		return a.GetEpoch() > b.GetEpoch()
	}
	if a.GetSeq() != b.GetSeq() {
		return a.GetSeq() > b.GetSeq()
	}
	return a.GetClean() && !b.GetClean()
}

func decodeHead(slot []byte) *journaletv1.Head {
	if len(slot) < headFrame {
		return nil
	}
	n := binary.LittleEndian.Uint32(slot)
	if n == 0 || int(n) > len(slot)-headFrame {
		return nil
	}
	body := slot[headFrame : headFrame+n]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(slot[4:]) {
		return nil
	}
	h := new(journaletv1.Head)
	if proto.Unmarshal(body, h) != nil {
		return nil
	}
	return h
}

func encodeHead(h *journaletv1.Head) ([]byte, error) {
	slot := make([]byte, headFrame, headSlot)
	slot, err := proto.MarshalOptions{}.MarshalAppend(slot, h)
	if err != nil {
		return nil, err
	}
	if len(slot) > headSlot {
		return nil, fmt.Errorf("a head of %d bytes is more than the %d of its slot", len(slot), headSlot)
	}
	body := slot[headFrame:]
	binary.LittleEndian.PutUint32(slot, uint32(len(body)))
	binary.LittleEndian.PutUint32(slot[4:], crc32.Checksum(body, castagnoli))
	return slot[:headSlot], nil
}

// newHead begins a run: h is on disk before newHead returns.
func newHead(dir string, h *journaletv1.Head) (*head, error) {
	slot, err := encodeHead(h)
	if err != nil {
		return nil, fmt.Errorf("bus: write the journal's head: %w", err)
	}
	path := filepath.Join(dir, headFile)
	if err := durable.Write(path, append(slot, make([]byte, headSlot)...)); err != nil {
		return nil, fmt.Errorf("bus: write the journal's head: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("bus: write the journal's head: %w", err)
	}
	return &head{f: f, now: h, nextSlot: 1, synced: time.Now()}, nil
}

// advance records that the journal is stored up to seq. It costs one small write; the fsync follows in the
// background, at most one each headSyncEvery, so that no append waits for it.
func (h *head) advance(seq uint64, hash []byte) error {
	h.now.Seq, h.now.Hash = seq, hash
	if err := h.write(); err != nil {
		return err
	}
	if e := h.syncFail.Swap(nil); e != nil {
		return *e
	}
	if now := time.Now(); now.Sub(h.synced) >= headSyncEvery && h.syncing.CompareAndSwap(false, true) {
		h.synced = now
		go func() {
			defer h.syncing.Store(false)
			if err := h.f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
				h.syncFail.Store(&err)
			}
		}()
	}
	return nil
}

func (h *head) write() error {
	slot, err := encodeHead(h.now)
	if err != nil {
		return err
	}
	if _, err := h.f.WriteAt(slot, h.nextSlot*headSlot); err != nil {
		return err
	}
	h.nextSlot = 1 - h.nextSlot
	return nil
}

// close writes the head durably and closes its file; clean: the journal ends exactly at the head.
func (h *head) close(clean bool) error {
	h.now.Clean = clean
	err := errors.Join(h.write(), h.f.Sync())
	return errors.Join(err, h.f.Close())
}
