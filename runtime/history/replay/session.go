package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
)

// maxSessionBytes bounds the records that a session keeps in memory: some four million events.
const maxSessionBytes = 1 << 30

// ErrTooLarge is returned by Open for a journal that a session does not take into memory.
var ErrTooLarge = errors.New("the journal is too large to step through: export some of its pods, or a time range, " +
	"as a bundle, and open that")

// Session is a journal in memory, with the states of all actors at some of its records, so that a state, a difference
// or a search takes milliseconds. It may be used from several goroutines.
type Session struct {
	node  string
	base  base
	lib   *library
	slabs slabs
	// records are the encoded records by position, seqs their numbers.
	records [][]byte
	seqs    []uint64
	// tracks are the records that concern an actor, everyone the records that concern all actors, as positions.
	tracks   map[messages.Ref]*track
	everyone []uint32
	// started are the positions of the starts of the agent.
	started []uint32
}

// track is what a session knows of one actor.
type track struct {
	at          []uint32
	checkpoints []checkpoint
}

// Open reads a journal into memory and folds it once. ctx also bounds what the session reads later: manifests. It
// returns the errors of Check, and ErrTooLarge.
func Open(ctx context.Context, src history.Reader, o Options) (*Session, error) {
	b, err := firstBase(ctx, src)
	if err != nil {
		return nil, err
	}
	s := &Session{node: src.Node(), base: b, lib: newLibrary(ctx, src), tracks: map[messages.Ref]*track{}}
	var keepers []*keeper
	p := newPipeline(o, s.lib.get, func(f *fold.Fold) {
		keepers = append(keepers, &keeper{fold: f, kept: map[messages.Ref]*kept{}})
	})
	for i, k := range keepers {
		p.workers[i].after = k.after
	}
	p.stored = s.store
	p.joined = s.index
	if err := p.run(ctx, src, b, 0); err != nil {
		return nil, err
	}
	for _, k := range keepers {
		for ref, kept := range k.kept {
			s.track(ref).checkpoints = s.placed(kept.all)
		}
	}
	return s, nil
}

// placed returns checkpoints with their positions.
func (s *Session) placed(all []checkpoint) []checkpoint {
	for i := range all {
		c := &all[i]
		c.at, c.from = uint32(s.position(c.seq)), uint32(s.position(c.fromSeq))
		for c.from > 0 && s.partOfNext(int(c.from)-1) {
			c.from--
		}
	}
	return all
}

// partOfNext reports whether a record and the next one are parts of one step.
func (s *Session) partOfNext(at int) bool {
	rec, err := messages.Decode(s.records[at])
	return err == nil && rec.GetStep().GetMore()
}

// store keeps an encoded record.
func (s *Session) store(e history.Entry) error {
	if s.slabs.bytes+len(e.Bytes) > maxSessionBytes {
		return ErrTooLarge
	}
	s.records, s.seqs = append(s.records, s.slabs.keep(e.Bytes)), append(s.seqs, e.Seq)
	return nil
}

// index notes whom the last n stored records, which are one record or the parts of one, concern.
func (s *Session) index(rec *journaletv1.Record, n int) {
	last := uint32(len(s.records))
	add := func(at []uint32) []uint32 {
		for i := last - uint32(n); i < last; i++ {
			if len(at) == 0 || at[len(at)-1] < i {
				at = append(at, i)
			}
		}
		return at
	}
	author := messages.RefOf(rec.GetActor())
	if rec.GetStep() != nil {
		s.track(author).at = add(s.track(author).at)
	}
	for _, e := range messages.Events(rec) {
		audience, everyone := messages.Audience(author, e)
		for _, ref := range audience {
			s.track(ref).at = add(s.track(ref).at)
		}
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_PodForgotten:
			ref := messages.Pod(k.PodForgotten.GetUid())
			s.track(ref).at = add(s.track(ref).at)
		case *journaletv1.Event_AgentStarted:
			s.started = add(s.started)
		case *journaletv1.Event_Quarantined, *journaletv1.Event_QuarantineLifted:
			everyone = true
		}
		if everyone {
			s.everyone = add(s.everyone)
		}
	}
}

func (s *Session) track(ref messages.Ref) *track {
	t := s.tracks[ref]
	if t == nil {
		t = &track{}
		s.tracks[ref] = t
	}
	return t
}

// Node returns the node's name as a token of subjects, "" if it is not known.
func (s *Session) Node() string { return s.node }

// Bounds returns the first and the last record that can be shown; first is above last in an empty session.
func (s *Session) Bounds() (first, last uint64) {
	if len(s.seqs) == 0 {
		return 1, 0
	}
	return s.seqs[0], s.seqs[len(s.seqs)-1]
}

// position returns the position of a record, or of the next one if it is missing.
func (s *Session) position(seq uint64) int {
	i, _ := slices.BinarySearch(s.seqs, seq)
	return i
}

// Record returns a record; ErrNoRecord or ErrGone if it is not there.
func (s *Session) Record(seq uint64) (*journaletv1.Record, error) {
	i, ok := slices.BinarySearch(s.seqs, seq)
	switch {
	case ok:
		return messages.Decode(s.records[i])
	case i == 0:
		return nil, fmt.Errorf("record %d: %w", seq, history.ErrGone)
	}
	return nil, fmt.Errorf("record %d: %w", seq, history.ErrNoRecord)
}

// State returns the state of an actor after a record, 0 for the last one, as StateAt does.
func (s *Session) State(ref messages.Ref, seq uint64) (*State, error) {
	if first, last := s.Bounds(); seq == 0 {
		seq = last
	} else if seq < first || seq > last {
		return nil, fmt.Errorf("record %d: %w: those from %d to %d are there", seq, history.ErrNoRecord, first, last)
	}
	end := uint32(s.position(seq + 1))
	f := fold.New(fold.AllDeciders, s.lib.get)
	f.Mine = func(r messages.Ref) bool { return r == ref }
	from := uint32(0)
	t := s.tracks[ref]
	if t == nil {
		t = &track{}
	}
	err := guarded(seq, func() error {
		if i := t.before(end); i >= 0 {
			from = t.checkpoints[i].from
			return s.resume(f, t.checkpoints[i])
		}
		return beginAlone(s.base, f, ref)
	})
	if err != nil {
		return nil, err
	}
	var st *State
	for at := range merged(t.at, s.everyone, from, end) {
		rec, err := messages.Decode(s.records[at])
		if err != nil {
			return nil, err
		}
		if err := guarded(rec.GetSeq(), func() error { s.base.fold(f, rec); return nil }); err != nil {
			return nil, err
		}
	}
	err = guarded(seq, func() (err error) { st, err = stateIn(f, ref, seq); return err })
	return st, err
}

// resume restores the actor of a checkpoint in a fold.
func (s *Session) resume(f *fold.Fold, c checkpoint) error {
	if i, _ := slices.BinarySearch(s.started, c.from); i > 0 {
		rec, err := messages.Decode(s.records[s.started[i-1]])
		if err != nil {
			return err
		}
		f.Started = rec
	} else if err := s.base.run(f); err != nil {
		return err
	}
	return f.Restore(c.snapshot)
}

// Diff returns the fields of an actor's state that differ between two records.
func (s *Session) Diff(ref messages.Ref, from, to uint64) ([]Field, error) {
	a, err := s.State(ref, from)
	if err != nil {
		return nil, err
	}
	b, err := s.State(ref, to)
	if err != nil {
		return nil, err
	}
	return Differences(a.Message, b.Message), nil
}

// maxCauses bounds a chain of causes. One of a pod's start has some 20 records.
const maxCauses = 256

// Causes returns a record and its causes, up to a fact or to a record that is not there: record seq, the record that
// its author took that step on, and so on; at most maxCauses.
func (s *Session) Causes(seq uint64) ([]*journaletv1.Record, error) {
	rec, err := s.Record(seq)
	if err != nil {
		return nil, err
	}
	chain := []*journaletv1.Record{rec}
	for rec.GetStep() != nil && len(chain) < maxCauses {
		// A cause is before its step; what claims otherwise would be a loop.
		cause := rec.GetStep().GetCause()
		if cause >= rec.GetSeq() {
			break
		}
		if rec, err = s.Record(cause); err != nil {
			break
		}
		chain = append(chain, rec)
	}
	return chain, nil
}

// Concerned returns the actors that a record concerns: its author and the actors that receive an event of it, sorted. A
// record that concerns everyone concerns only its author here.
func (s *Session) Concerned(seq uint64) ([]messages.Ref, error) {
	rec, err := s.Record(seq)
	if err != nil {
		return nil, err
	}
	author := messages.RefOf(rec.GetActor())
	refs := []messages.Ref{author}
	for _, e := range messages.Events(rec) {
		audience, _ := messages.Audience(author, e)
		refs = append(refs, audience...)
	}
	slices.SortFunc(refs, compareRefs)
	return slices.Compact(refs), nil
}

// Next returns the first record after seq that concerns an actor, 0 for none.
func (s *Session) Next(ref messages.Ref, seq uint64) uint64 {
	if t := s.tracks[ref]; t != nil {
		i, _ := slices.BinarySearch(t.at, uint32(s.position(seq+1)))
		if i < len(t.at) {
			return s.seqs[t.at[i]]
		}
	}
	return 0
}

// Previous returns the last record before seq that concerns an actor, 0 for none.
func (s *Session) Previous(ref messages.Ref, seq uint64) uint64 {
	if t := s.tracks[ref]; t != nil {
		if i, _ := slices.BinarySearch(t.at, uint32(s.position(seq))); i > 0 {
			return s.seqs[t.at[i-1]]
		}
	}
	return 0
}

// Actors returns all actors that the journal holds records of, sorted.
func (s *Session) Actors() []messages.Ref {
	refs := make([]messages.Ref, 0, len(s.tracks))
	for ref := range s.tracks {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, compareRefs)
	return refs
}
