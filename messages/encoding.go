package messages

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

// JournalFormat is the format of the journal, with its manifests and snapshots, that this version reads and writes; one
// of another number is refused. A change that makes recorded journals mean something else raises it. ADR 025 says when
// that is allowed.
const JournalFormat = 3

// HashBytes is how much of a record's SHA-256 the next record keeps: 16 bytes show any damage and most tampering, at
// half the bytes of a whole hash.
const HashBytes = 16

// MaxRecordBytes bounds one encoded record. The largest regular one is an observation of a pod with as many containers
// as a manifest may have, all with termination messages.
const MaxRecordBytes = 1 << 20

// Encode returns a record's stored form. It is deterministic within one version of the code.
func Encode(rec *journaletv1.Record) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("encode record %d: %w", rec.GetSeq(), err)
	}
	if len(b) > MaxRecordBytes {
		return nil, fmt.Errorf("encode record %d: %d bytes, the limit is %d",
			rec.GetSeq(), len(b), MaxRecordBytes)
	}
	return b, nil
}

// Decode reads what Encode wrote.
func Decode(b []byte) (*journaletv1.Record, error) {
	rec := new(journaletv1.Record)
	if err := proto.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	return rec, nil
}

// Hash returns the hash of a record's stored form, as the next record keeps it.
func Hash(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:HashBytes]
}
