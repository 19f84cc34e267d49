package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/history"
)

// Format is the format of the bundles that this version writes and reads.
const Format = 1

// A bundle begins and ends with a frame that zstd skips. All numbers are little-endian.
const (
	skippable = 0x184D2A5B // one of the 16 magic numbers of such frames
	opening   = "journalet bundle"
	ending    = "end of journalet"

	openingBytes = 4 + 4 + len(opening) + 4 + 4         // magic, size of the rest, opening, format, zeros
	endingBytes  = 4 + 4 + 8 + 4 + 4 + 32 + len(ending) // magic, size of the rest, tail, ending
)

// Bounds of a bundle, so that a hostile one costs no more than its size justifies.
const (
	// frameBytes is how much of a frame is collected before it is compressed: enough to compress well, and to read one
	// record from it in under a millisecond.
	frameBytes = 256 << 10
	// MaxFrameBytes bounds a decompressed frame. The largest item is a manifest or a state of 10 MiB.
	MaxFrameBytes = 12 << 20
	// maxRatio bounds what a frame decompresses to, in multiples of its size. The writer stores what compresses better.
	maxRatio = 256
	// maxHeaderBytes and maxIndexBytes bound the header and the index: the index has some 500 bytes for each frame.
	maxHeaderBytes = 1 << 20
	maxIndexBytes  = 32 << 20
	// minStored is the least size of a stored frame: magic, descriptor, size, and a block.
	minStored = 9
)

// tail is where the index is.
type tail struct {
	offset        uint64
	stored, bytes uint32
	sum           [sha256.Size]byte
}

// problem is a bundle that cannot be read. It is history.ErrDamaged.
type problem struct{ text string }

func (p *problem) Error() string        { return p.text }
func (p *problem) Is(target error) bool { return target == history.ErrDamaged }

func problemf(format string, args ...any) error { return &problem{fmt.Sprintf(format, args...)} }

const copyAgain = "copy the file again, or export it again"

func openingFrame() []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippable)
	b = binary.LittleEndian.AppendUint32(b, uint32(openingBytes-8))
	b = append(b, opening...)
	b = binary.LittleEndian.AppendUint32(b, Format)
	return binary.LittleEndian.AppendUint32(b, 0)
}

func (t *tail) frame() []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippable)
	b = binary.LittleEndian.AppendUint32(b, uint32(endingBytes-8))
	b = binary.LittleEndian.AppendUint64(b, t.offset)
	b = binary.LittleEndian.AppendUint32(b, t.stored)
	b = binary.LittleEndian.AppendUint32(b, t.bytes)
	b = append(b, t.sum[:]...)
	return append(b, ending...)
}

// IsBundle reports whether a file that begins with b is a bundle, of whatever format.
func IsBundle(b []byte) bool {
	return len(b) >= 8+len(opening) && string(b[8:8+len(opening)]) == opening
}

// checkOpening checks the first bytes of a file of a size.
func checkOpening(b []byte, size int64) error {
	want := openingFrame()
	switch {
	case size == 0:
		return problemf("the file is empty: " + copyAgain)
	case len(b) < openingBytes && bytes.HasPrefix(want, b):
		return problemf("the file ends at byte %d, within its first %d: %s", size, openingBytes, copyAgain)
	case !IsBundle(b) || !bytes.Equal(b[:8], want[:8]):
		return problemf("byte 0: this is no bundle; `journalet journal export` writes one")
	}
	var format uint32
	if len(b) >= openingBytes {
		format = binary.LittleEndian.Uint32(b[8+len(opening):])
	}
	switch {
	case format > Format && format < 1<<16:
		return problemf("byte 24: the bundle has format %d, this version reads %d: use the version that wrote it, or a "+
			"newer one", format, Format)
	case format == 0 || !bytes.Equal(b, want):
		return problemf("byte 24: the bundle's first bytes are damaged: " + copyAgain)
	case size < int64(openingBytes+endingBytes):
		return problemf("the file ends at byte %d, before its index: %s", size, copyAgain)
	}
	return nil
}

// parseTail reads the last bytes of a file of a size.
func parseTail(b []byte, size int64) (t tail, err error) {
	at := size - int64(endingBytes)
	if string(b[endingBytes-len(ending):]) != ending || binary.LittleEndian.Uint32(b) != skippable ||
		binary.LittleEndian.Uint32(b[4:]) != uint32(endingBytes-8) {
		return t, problemf("byte %d: the file does not end as a bundle does: it was cut, or something was added; %s", at,
			copyAgain)
	}
	t.offset = binary.LittleEndian.Uint64(b[8:])
	t.stored = binary.LittleEndian.Uint32(b[16:])
	t.bytes = binary.LittleEndian.Uint32(b[20:])
	copy(t.sum[:], b[24:])
	if t.offset < uint64(openingBytes) || t.offset > uint64(at) || uint64(at)-t.offset != uint64(t.stored) {
		return t, problemf("byte %d: the index is said to be at byte %d with %d bytes, and the file has %d: %s", at,
			t.offset, t.stored, size, copyAgain)
	}
	return t, checkSizes("the index", t.offset, t.stored, t.bytes, maxIndexBytes)
}

// checkSizes holds the sizes of a frame to the bounds, before memory is spent on it.
func checkSizes(what string, at uint64, stored, size uint32, limit uint64) error {
	switch {
	case stored < minStored || size == 0:
		return problemf("byte %d: %s has no content: %s", at, what, copyAgain)
	case uint64(size) > limit:
		return problemf("byte %d: %s claims %d bytes, the limit is %d: the file is damaged or hostile", at, what, size,
			limit)
	case uint64(size) > uint64(stored)*maxRatio:
		return problemf("byte %d: %s claims %d bytes of %d, the limit is %d times as many: the file is damaged or hostile",
			at, what, size, stored, maxRatio)
	}
	return nil
}

// checkJournalFormat returns an error for records that this version does not read.
func checkJournalFormat(format uint32, version string) error {
	if format == messages.JournalFormat {
		return nil
	}
	return problemf("the bundle holds records of journal format %d, this version reads %d: use the version that wrote it "+
		"(%s)", format, messages.JournalFormat, version)
}

var errTooLarge = errors.New("larger than a frame may be")
