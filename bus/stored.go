package bus

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

var (
	// ErrServed says that an agent has the journal open, and is to be asked.
	ErrServed = errors.New("an agent has this journal open: ask it")
	// ErrNoJournal says that there is none in the folder.
	ErrNoJournal = errors.New("there is no journal")
	errMoved     = errors.New("an agent was started there meanwhile: ask again, and it will answer")
)

// Stored is a journal that no agent has open: one that is stopped, or a copy of its folder. It is read as it lies on the
// disk, block by block; nothing is written, repaired or cut, so that a damaged journal can be looked at twice.
type Stored struct {
	dir  string
	head *journaletv1.Head // nil: missing or damaged
	cut  *cut
	of   description
	meta error // what is wrong with the stream's own description
}

// OpenStored looks at the bus's folder dir. Errors are ErrServed, ErrNoJournal, that the folder may not be read, and
// that the journal's format is not this version's.
func OpenStored(dir string) (*Stored, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	s := &Stored{dir: dir, cut: readCut(dir, slog.New(slog.DiscardHandler))} // Verify tells what a bad note means
	if err := s.undisturbed(); err != nil {
		return nil, err
	}
	if s.head, err = readHead(dir); err != nil && !errors.Is(err, errHeadDamaged) {
		return nil, err
	}
	_, err = os.Stat(s.blocks(journalStream).dir)
	if errors.Is(err, fs.ErrNotExist) && s.head == nil {
		return nil, fmt.Errorf("%w in %s", ErrNoJournal, dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	if s.of, s.meta = s.describe(); s.meta != nil {
		return s, nil // Verify reports it
	}
	return s, checkFormat(dir, s.of.format)
}

// Node is the node's name as it stands in subjects, "" if nothing tells it.
func (s *Stored) Node() string { return s.of.node }

func (s *Stored) blocks(stream string) *blocks { return &blocks{dir: streamDir(s.dir, stream)} }

// undisturbed: no agent has the journal open now.
func (s *Stored) undisturbed() error {
	served, err := Served(s.dir)
	if err == nil && served {
		return ErrServed
	}
	return err
}

// settled is asked at the end of a reading, with how it went: if an agent was there meanwhile, that is what is the matter.
func (s *Stored) settled(result error) error {
	h, err := readHead(s.dir)
	if s.undisturbed() != nil || err != nil && !errors.Is(err, errHeadDamaged) || h.GetEpoch() != s.head.GetEpoch() {
		return errMoved
	}
	return result
}

// description is what the description of the journal's stream says of it.
type description struct {
	node   string // as a token of its subjects; "" if nothing says it
	format int    // 0: it names none
}

// describe reads the stream's own description, without which the server does not see the stream.
func (s *Stored) describe() (d description, err error) {
	dir := filepath.Dir(s.blocks(journalStream).dir)
	b, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFile))
	if err != nil {
		return d, err
	}
	sum, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFileSum))
	if err != nil {
		return d, err
	}
	hash, err := newStoreHash(journalStream)
	if err != nil {
		return d, err
	}
	_, _ = hash.Write(b) // never fails
	var info struct {
		Subjects []string          `json:"subjects"`
		Metadata map[string]string `json:"metadata"`
	}
	if hex.EncodeToString(hash.Sum(nil)) != string(sum) || json.Unmarshal(b, &info) != nil || len(info.Subjects) != 1 {
		return d, fmt.Errorf("%s and its checksum do not fit", filepath.Join(dir, server.JetStreamMetaFile))
	}
	if rest, ok := strings.CutSuffix(info.Subjects[0], ".>"); ok {
		_, d.node, _ = cutLast(rest)
		d.format, _ = strconv.Atoi(info.Metadata[formatKey])
		return d, nil
	}
	return d, fmt.Errorf("%s names no node", filepath.Join(dir, server.JetStreamMetaFile))
}

// each reads the blocks of a stream in order: whole records go to f, what is none to bad, with the block, the
// place in it and why.
func (s *Stored) each(ctx context.Context, stream, prefix string, f func(frame) error, bad func(block uint64, at int, why error)) error {
	bl := s.blocks(stream)
	numbers, err := bl.numbers()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := bl.scanBlock(stream, n, prefix, f, func(at int, why error) { bad(n, at, why) }); err != nil {
			return err
		}
	}
	return nil
}

// prefix is what the subjects of this journal's records begin with.
func (s *Stored) prefix() string {
	return strings.TrimSuffix(messages.JournalFilter(s.of.node), ".>")
}

// Verify is Journal's, of a journal that no agent has open. What only a look at the files can tell is told too.
func (s *Stored) Verify(ctx context.Context, progress func(done, total uint64)) (VerifyReport, error) {
	v := &storedVerifier{verifier: verifier{head: s.head, tell: progress, at: s.cut.first()}, s: s}
	v.total = s.head.GetSeq() + 1 - min(s.cut.first(), s.head.GetSeq()+1)
	if s.meta != nil {
		v.r.problem(0, "the description of the journal's stream cannot be used: %v; the agent would not find the journal", s.meta)
	}
	err := s.each(ctx, journalStream, s.prefix(), v.frame, v.bad)
	if err = s.settled(err); err != nil {
		return VerifyReport{}, fmt.Errorf("verify the journal: %w", err)
	}
	v.tail()
	return v.end(), nil
}

// Size is Journal's, of a journal that no agent has open. Records that cannot be read are passed over.
func (s *Stored) Size(ctx context.Context) (SizeReport, error) {
	var r SizeReport
	m := newMeasure(&r)
	err := s.each(ctx, journalStream, s.prefix(), func(fr frame) error {
		if fr.removes || fr.gone || fr.seq < s.cut.first() {
			return nil
		}
		r.JournalDisk += uint64(fr.size)
		if rec, err := messages.Decode(fr.data); err == nil {
			m.add(rec, len(fr.data))
		}
		return nil
	}, func(uint64, int, error) {})
	if err != nil {
		return r, fmt.Errorf("measure the journal: %w", s.settled(err))
	}
	m.end()
	for _, x := range []struct {
		stream      string
		disk, count *uint64
	}{{manifestStream, &r.ManifestsDisk, &r.Manifests}, {snapshotStream, &r.SnapshotsDisk, &r.Snapshots}} {
		if *x.disk, *x.count, err = s.newest(ctx, x.stream); err != nil {
			return r, fmt.Errorf("measure %s: %w", strings.ToLower(x.stream), s.settled(err))
		}
	}
	return r, s.settled(nil)
}

// newest measures a stream that keeps the newest message of each subject.
func (s *Stored) newest(ctx context.Context, stream string) (disk, count uint64, err error) {
	type message struct{ seq, size uint64 }
	kept := map[string]message{}
	subjects := map[uint64]string{}
	err = s.each(ctx, stream, strings.ToLower(strings.TrimSuffix(stream, "S"))+".", func(fr frame) error {
		switch {
		case fr.removes:
			if at := subjects[fr.seq]; kept[at].seq == fr.seq {
				delete(kept, at)
			}
			delete(subjects, fr.seq)
		case !fr.gone && fr.seq > 0:
			subject := string(fr.subject)
			delete(subjects, kept[subject].seq)
			kept[subject], subjects[fr.seq] = message{fr.seq, uint64(fr.size)}, subject
		}
		return nil
	}, func(uint64, int, error) {})
	for _, m := range kept {
		disk += m.size
	}
	return disk, uint64(len(kept)), err
}

// storedVerifier checks records as they lie in their blocks.
type storedVerifier struct {
	verifier
	s     *Stored
	begun bool   // a record was there
	hole  string // what was met since the last record that could be read; "" for nothing
}

// frame takes one whole record of a block.
func (v *storedVerifier) frame(fr frame) error {
	switch {
	case fr.removes && v.begun && fr.seq >= v.r.First && fr.seq < v.at:
		v.r.problem(fr.seq, "record %d was removed, and retention did not cut it", fr.seq)
		return nil
	case fr.removes, fr.gone, fr.seq < v.s.cut.first(): // a cut leaves some in the block that it ends in
		return nil
	case !v.begun:
		v.begun, v.r.First = true, fr.seq
		v.front(v.s.cut)
		if v.r.First > v.s.cut.first() {
			v.at = fr.seq
		}
	}
	if v.hole != "" {
		v.lost(fr.seq)
	}
	rec, err := messages.Decode(fr.data)
	if err == nil && v.s.of.node != "" && string(fr.subject) != messages.Subject(v.s.of.node, rec) {
		v.r.problem(fr.seq, "record %d stands under %q, where the agent would not look for it: it is another node's, or it was changed", fr.seq, fr.subject)
	}
	v.check(fr.data)
	return nil
}

// bad notes where a block cannot be read. What is lost with it shows at the next record that can.
func (v *storedVerifier) bad(block uint64, at int, why error) {
	if v.hole == "" {
		v.hole = fmt.Sprintf("block %d is damaged at byte %d: %v", block, at, why)
	}
}

// lost tells what cannot be read before record next.
func (v *storedVerifier) lost(next uint64) {
	if next > v.at {
		v.gap(v.at, next-1, "cannot be read: "+v.hole)
		v.at, v.hash = next, nil
	} else {
		v.r.problem(v.at, "what stands before record %d is no record: %s", next, v.hole)
	}
	v.hole = ""
}

// tail ends the reading behind the last record.
func (v *storedVerifier) tail() {
	if !v.begun {
		v.r.First = v.at
	}
	v.r.Last = v.at - 1
	if v.hole != "" {
		v.r.problem(v.at, "after record %d the journal's end is torn: %s; the agent cuts it off when it starts, and keeps a copy", v.r.Last, v.hole)
	}
}
