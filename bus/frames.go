package bus

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/minio/highwayhash"
)

// The format of a block as the pinned server writes it: records one after the other, each with its length, number,
// time, subject, an optional header and a checksum over all but the lengths. A test compares what is read here with
// what the server returns.
const (
	frameHead = 4 + 8 + 8 + 2
	frameSum  = highwayhash.Size64
	// maxFrame is the server's own bound of one record; a longer one is damaged.
	maxFrame = 32 << 20
	// maxBlock bounds what is read of a block: it holds 8 MiB, or one message that is longer.
	maxBlock = maxFrame

	// journalSubjects is the prefix of the subjects of all journals' records.
	journalSubjects = "node."

	withHeader = 1 << 31 // of the length
	erased     = 1 << 63 // of the number: the record was erased in place
	tombstone  = 1 << 62 // of the number: the record of that number was removed
)

// frame is one record of a block. It shares the block's memory.
type frame struct {
	seq     uint64
	removes bool // a tombstone: seq was removed
	gone    bool // the record was erased
	subject []byte
	data    []byte
	size    int // with all bytes that the store adds
}

var (
	errTorn     = errors.New("the block ends within a record")
	errNoFrame  = errors.New("no record begins here")
	errChecksum = errors.New("the store's checksum does not match")
)

// checksum computes the store's checksum of the records of one block. It is not for concurrent use.
type checksum struct {
	key   [sha256.Size]byte
	buf   []byte // what the checksum is over, joined
	total int    // bytes that checksums were computed of
}

// blockSum returns the checksum of one block's records.
func blockSum(stream string, block uint64) *checksum {
	return &checksum{key: sha256.Sum256([]byte(stream + "-" + strconv.FormatUint(block, 10)))}
}

// over returns the checksum over parts. One call of the hash over a copy costs half of what three writes do.
func (c *checksum) over(parts ...[]byte) uint64 {
	c.buf = c.buf[:0]
	for _, p := range parts {
		c.buf = append(c.buf, p...)
	}
	c.total += len(c.buf)
	return highwayhash.Sum64(c.buf, c.key[:])
}

func newStoreHash(name string) (*highwayhash.Digest64, error) {
	key := sha256.Sum256([]byte(name))
	return highwayhash.NewDigest64(key[:])
}

// lengthsOf returns the size of the record at the beginning of b, and the offset behind its subject. They are under no
// checksum. b has its head.
func lengthsOf(b []byte) (size, subject int) {
	return int(binary.LittleEndian.Uint32(b) &^ withHeader), frameHead + int(binary.LittleEndian.Uint16(b[20:]))
}

// parseFrame reads the record at the beginning of b.
func parseFrame(b []byte, sum *checksum) (frame, error) {
	if len(b) < frameHead {
		return frame{}, errTorn
	}
	size, subject := lengthsOf(b)
	hasHeader := binary.LittleEndian.Uint32(b)&withHeader != 0
	data := subject
	if hasHeader {
		data += 4
	}
	switch {
	case size > maxFrame || data+frameSum > size:
		return frame{}, errNoFrame
	case size > len(b):
		return frame{}, errTorn
	}
	end := size - frameSum
	if sum.over(b[4:20], b[frameHead:subject], b[data:end]) != binary.LittleEndian.Uint64(b[end:]) {
		return frame{}, errChecksum
	}
	if hasHeader {
		header := int(binary.LittleEndian.Uint32(b[subject:])) // not under the checksum
		if header < 0 || header > end-data {
			return frame{}, errChecksum
		}
		data += header
	}
	seq := binary.LittleEndian.Uint64(b[4:])
	return frame{
		seq: seq &^ (erased | tombstone), removes: seq&tombstone != 0, gone: seq&erased != 0,
		subject: b[frameHead:subject], data: b[data:end], size: size,
	}, nil
}

// place is one record of a block, or bytes that belong to none.
type place struct {
	frame
	at  int   // offset in the block
	bad error // why no record begins there; nil for a record
}

// scan appends a block's records to out, in order. Behind bytes that belong to no record it continues at the next whole
// record whose subject begins with prefix.
func scan(b []byte, sum *checksum, prefix string, out []place) []place {
	for at := 0; at < len(b); {
		fr, err := parseFrame(b[at:], sum)
		if err != nil {
			out = append(out, place{at: at, bad: err})
			if at, fr = resume(b, at+1, sum, prefix); at == len(b) {
				return out
			}
		}
		out = append(out, place{frame: fr, at: at})
		at += fr.size
	}
	return out
}

// maxResumed bounds the bytes whose checksums one resume computes: in bytes that a stranger wrote, a record could seem
// to begin everywhere, each with all that follows.
const maxResumed = 8 * maxBlock

// resume finds the next whole record at or after from; len(b) if no whole record follows.
func resume(b []byte, from int, sum *checksum, prefix string) (int, frame) {
	for at, spent := from, 0; spent <= maxResumed; at++ {
		// Search for the subject first: a checksum at each byte would take minutes.
		i := bytes.Index(b[min(at+frameHead, len(b)):], []byte(prefix))
		if i < 0 {
			return len(b), frame{}
		}
		at += i
		fr, err := parseFrame(b[at:], sum)
		if err == nil {
			return at, fr
		}
		if errors.Is(err, errChecksum) {
			size, _ := lengthsOf(b[at:])
			spent += size
		}
	}
	return len(b), frame{}
}
