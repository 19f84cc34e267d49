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
const JournalFormat = 2

// HashBytes is how much of a record's SHA-256 the next record keeps: 16 bytes tell any damage and
// most malice, at half the journal bytes of the whole.
const HashBytes = 16

// MaxRecordBytes bounds one encoded record. The largest honest one is a step of a pod with the
// most containers that fit a 10 MB manifest; steps are far below this.
const MaxRecordBytes = 1 << 20

// Encode gives a record's stored form. It is deterministic within one version of the code.
func Encode(rec *journaletv1.Record) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("encode record %d: %w", rec.GetSeq(), err)
	}
	if len(b) > MaxRecordBytes {
		return nil, fmt.Errorf("encode record %d: %d bytes, more than the %d that a record may have",
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

// Hash is what the record after the one stored as b keeps of it.
func Hash(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:HashBytes]
}
