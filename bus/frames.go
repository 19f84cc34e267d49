package bus

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/minio/highwayhash"

	"github.com/journalet/journalet/runtime/bounded"
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

// blockHash returns the checksum of one block's records.
func blockHash(stream string, block uint64) (*highwayhash.Digest64, error) {
	return newStoreHash(stream + "-" + strconv.FormatUint(block, 10))
}

func newStoreHash(name string) (*highwayhash.Digest64, error) {
	key := sha256.Sum256([]byte(name))
	return highwayhash.NewDigest64(key[:])
}

// parseFrame reads the record at the beginning of b.
func parseFrame(b []byte, hash *highwayhash.Digest64) (frame, error) {
	if len(b) < frameHead {
		return frame{}, errTorn
	}
	length := binary.LittleEndian.Uint32(b)
	size := int(length &^ withHeader)
	subject := frameHead + int(binary.LittleEndian.Uint16(b[20:]))
	data := subject
	if length&withHeader != 0 {
		data += 4
	}
	switch {
	case size > maxFrame || data+frameSum > size:
		return frame{}, errNoFrame
	case size > len(b):
		return frame{}, errTorn
	}
	end := size - frameSum
	hash.Reset()
	_, _ = hash.Write(b[4:20]) // never fails, as the other writes
	_, _ = hash.Write(b[frameHead:subject])
	_, _ = hash.Write(b[data:end])
	var sum [frameSum]byte
	if !bytes.Equal(hash.Sum(sum[:0]), b[end:size]) {
		return frame{}, errChecksum
	}
	if length&withHeader != 0 {
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

// scan passes a block's records to f in order. It passes the offset of bytes that belong to no record to bad, with
// the reason, and continues at the next whole record whose subject begins with prefix.
func scan(b []byte, hash *highwayhash.Digest64, prefix string, f func(frame) error, bad func(at int, why error)) error {
	for at := 0; at < len(b); {
		fr, err := parseFrame(b[at:], hash)
		if err != nil {
			bad(at, err)
			if at, fr = resume(b, at+1, hash, prefix); at == len(b) {
				return nil
			}
		}
		if err := f(fr); err != nil {
			return err
		}
		at += fr.size
	}
	return nil
}

// resume finds the next whole record at or after from; len(b) if there is none.
func resume(b []byte, from int, hash *highwayhash.Digest64, prefix string) (int, frame) {
	for at := from; ; at++ {
		// Search for the subject first: a checksum at each byte would take minutes.
		i := bytes.Index(b[min(at+frameHead, len(b)):], []byte(prefix))
		if i < 0 {
			return len(b), frame{}
		}
		at += i
		if fr, err := parseFrame(b[at:], hash); err == nil {
			return at, fr
		}
	}
}

// scanBlock calls scan on one block of a stream.
func (b *blocks) scanBlock(stream string, n uint64, prefix string, f func(frame) error,
	bad func(at int, why error)) error {
	hash, err := blockHash(stream, n)
	if err != nil {
		return err
	}
	data, err := b.readBlock(n)
	if err != nil {
		return err
	}
	return scan(data, hash, prefix, f, bad)
}

// readBlock returns the bytes of one block, at most maxBlock.
func (b *blocks) readBlock(n uint64) ([]byte, error) {
	data, err := bounded.ReadFile(b.path(n), maxBlock)
	if errors.Is(err, bounded.ErrTooLarge) {
		err = nil // what follows the limit is no record
	}
	return data, err
}
