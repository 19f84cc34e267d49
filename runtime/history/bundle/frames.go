package bundle

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/journalet/journalet/messages/journaletv1"
)

// compress returns b as one frame of zstd with its size in it. What would grow beyond maxRatio is stored as it is.
func compress(enc *zstd.Encoder, b []byte) []byte {
	if out := enc.EncodeAll(b, nil); len(b) <= maxRatio*len(out) {
		return out
	}
	return storedFrame(b)
}

// maxBlock bounds a block of zstd.
const maxBlock = 128 << 10

// storedFrame returns b as a frame of zstd without compression (RFC 8878, 3.1.1).
func storedFrame(b []byte) []byte {
	out := make([]byte, 0, len(b)+minStored+3*(len(b)/maxBlock+1))
	out = binary.LittleEndian.AppendUint32(out, 0xFD2FB528)
	out = append(out, 0xA0) // a content size of 4 bytes, a single segment, no checksum
	out = binary.LittleEndian.AppendUint32(out, uint32(len(b)))
	for {
		n := min(len(b), maxBlock)
		header := uint32(n) << 3 // a raw block
		if n == len(b) {
			header |= 1 // the last one
		}
		out = append(out, byte(header), byte(header>>8), byte(header>>16))
		out = append(out, b[:n]...)
		if b = b[n:]; header&1 == 1 {
			return out
		}
	}
}

// decoder decompresses frames of a file. It may be used by several goroutines.
type decoder struct {
	src io.ReaderAt
	zst *zstd.Decoder
	// stored are buffers for compressed frames.
	stored sync.Pool
}

func newDecoder(src io.ReaderAt) (*decoder, error) {
	zst, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.IgnoreChecksum(true), // SHA-256 has checked it
		zstd.WithDecoderMaxMemory(maxIndexBytes), zstd.WithDecoderMaxWindow(maxIndexBytes), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &decoder{src: src, zst: zst, stored: sync.Pool{New: func() any { return new([]byte) }}}, nil
}

// read returns the content of a frame whose sizes are within the bounds, in the memory of dst if that is large enough.
func (d *decoder) read(what string, at uint64, stored, size uint32, sum []byte, dst []byte) ([]byte, error) {
	p, _ := d.stored.Get().(*[]byte)
	defer d.stored.Put(p)
	if cap(*p) < int(stored) {
		*p = make([]byte, stored)
	}
	in := (*p)[:stored]
	if n, err := d.src.ReadAt(in, int64(at)); n < len(in) {
		return nil, fmt.Errorf("read %s at byte %d: %w", what, at, err)
	}
	if got := sha256.Sum256(in); string(got[:]) != string(sum) {
		return nil, problemf("byte %d: the SHA-256 of %s, %d bytes, is not the recorded one: the file was changed or is "+
			"damaged; %s", at, what, stored, copyAgain)
	}
	var h zstd.Header
	if err := h.Decode(in); err != nil || h.Skippable || !h.HasFCS || h.FrameContentSize != uint64(size) ||
		h.DictionaryID != 0 || !h.SingleSegment && h.WindowSize > maxIndexBytes {
		return nil, problemf("byte %d: %s is no frame of %d bytes: the file was not written by `journalet journal export`",
			at, what, size)
	}
	if cap(dst) < int(size) {
		dst = make([]byte, 0, size)
	}
	out, err := d.zst.DecodeAll(in, dst[:0])
	if err != nil || len(out) != int(size) {
		return nil, problemf("byte %d: %s cannot be decompressed: it has %d bytes in place of %d (%v)", at, what, len(out),
			size, err)
	}
	return out, nil
}

// appendItem appends an item to a frame: a field of Bundle, its length, its bytes.
func appendItem(b []byte, content journaletv1.BundleContent, item []byte) []byte {
	b = protowire.AppendTag(b, protowire.Number(content), protowire.BytesType)
	return protowire.AppendBytes(b, item)
}

// nextItem returns the first item of a frame and what follows it, nil if b holds no item of that content.
func nextItem(b []byte, content journaletv1.BundleContent) (item, rest []byte) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number != protowire.Number(content) || kind != protowire.BytesType {
		return nil, nil
	}
	item, m := protowire.ConsumeBytes(b[n:])
	if m < 0 {
		return nil, nil
	}
	return item, b[n+m:]
}

// seqOf returns the number of an encoded record, 0 if it has none.
func seqOf(record []byte) (seq uint64) {
	for b := record; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0
		}
		b = b[n:]
		if number == 1 && kind == protowire.VarintType {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return 0
			}
			seq, b = v, b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return 0
		}
		b = b[n:]
	}
	return seq
}
