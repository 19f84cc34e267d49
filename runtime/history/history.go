package history

import (
	"context"
	"errors"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Errors of a Reader.
var (
	// ErrGone means that a record was there and retention has cut it, or that a bundle was written without it.
	ErrGone = errors.New("the record is gone")
	// ErrNoRecord means that a record is not there: it is beyond the journal's end, or damaged.
	ErrNoRecord = errors.New("there is no such record")
	// ErrNoManifest means that the source has no manifest of that digest.
	ErrNoManifest = errors.New("there is no such manifest")
	// ErrDamaged means that what is there cannot be read as it was written.
	ErrDamaged = errors.New("the journal is damaged")
)

// Reader is a journal that is only read: of a running or a stopped agent, of a copy, of a bundle, or in memory. Its
// methods may be called from several goroutines. A journal that grows is read up to where it ended when it was opened.
type Reader interface {
	// Node returns the node's name as a token of subjects, "" if it is not known.
	Node() string
	// Bounds returns the first and the last record; first is above last in an empty journal.
	Bounds() (first, last uint64)
	// Read passes the records from one number to another, to 0 for the end, in order. Records that are missing between
	// are left out. It returns ErrGone if from is before the first record, and f's error if that fails.
	Read(ctx context.Context, from, to uint64, f func(Entry) error) error
	// Get returns one record; ErrGone or ErrNoRecord if it is not there.
	Get(ctx context.Context, seq uint64) (*journaletv1.Record, error)
	// Manifest returns the manifest with a digest as it was stored, or ErrNoManifest.
	Manifest(ctx context.Context, digest string) ([]byte, error)
	// Snapshots returns the barriers of the complete sets of snapshots in ascending order. A set contains all records up
	// to its barrier.
	Snapshots(ctx context.Context) ([]uint64, error)
	// Snapshot returns the set with a barrier.
	Snapshot(ctx context.Context, barrier uint64) ([]*journaletv1.Snapshot, error)
}

// Finder is a Reader that finds records by what they hold, in a fraction of the time that reading all of them takes.
type Finder interface {
	Reader
	// Find is Read for the records whose bytes hold one of some texts, none of them empty, and for the records of the
	// actors of a kind. What retention removes meanwhile is left out.
	Find(ctx context.Context, texts []string, kind journaletv1.ActorKind, from, to uint64, f func(Entry) error) error
}

// Entry is one record as it was stored.
type Entry struct {
	Seq uint64
	// Bytes is the encoded record. It is valid until the function that received it returns.
	Bytes []byte
}

// Record decodes the entry. The result shares nothing with Bytes.
func (e Entry) Record() (*journaletv1.Record, error) { return messages.Decode(e.Bytes) }
