package bus

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

var (
	// ErrServed means that an agent has the journal open and serves it.
	ErrServed = errors.New("an agent has this journal open: query the agent")
	// ErrNoJournal means that the directory holds no journal.
	ErrNoJournal = errors.New("there is no journal")
	// ErrGone means that retention has removed what is requested.
	ErrGone = errors.New("retention has removed it")
	// ErrNoRecord means that the journal holds no such record.
	ErrNoRecord = errors.New("no such record")
	errStarted  = errors.New("an agent was started there meanwhile: run the command again to query the agent")
)

// Stored is a journal read from its files, block by block: of a stopped agent, of a copy of its directory, or, opened
// by OpenShared, of a running agent. Nothing is written, repaired or cut, so that a damaged journal stays as it is, and
// no lock is kept. Its methods may be called by several goroutines at once.
type Stored struct {
	dir    string
	head   *journaletv1.Head // nil: missing or damaged
	cut    *cut
	stream description
	meta   error // what is wrong with the stream's own description

	span      *span // of OpenShared
	recent    recent
	manifests keptMessages
	snapshots keptMessages
}

// OpenStored opens the journal in the bus's directory dir to Verify or measure it. Errors are ErrServed, ErrNoJournal,
// missing permissions, and a format other than this version's.
func OpenStored(dir string) (*Stored, error) {
	s, err := newStored(dir)
	if err != nil {
		return nil, err
	}
	if err := s.checkStopped(); err != nil {
		return nil, err
	}
	return s, s.open()
}

func newStored(dir string) (*Stored, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	s := &Stored{dir: dir, cut: readCut(dir, slog.New(slog.DiscardHandler))} // Verify reports what a damaged CUT means
	s.manifests.stream, s.snapshots.stream = manifestStream, snapshotStream
	return s, nil
}

// open reads the head and the description.
func (s *Stored) open() (err error) {
	dir := s.dir
	if s.head, err = readHead(dir); err != nil && !errors.Is(err, errHeadDamaged) {
		return err
	}
	_, err = os.Stat(s.blocks(journalStream).dir)
	if errors.Is(err, fs.ErrNotExist) && s.head == nil {
		return fmt.Errorf("%w in %s", ErrNoJournal, dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the journal: %w", err)
	}
	if s.stream, s.meta = s.describe(); s.meta != nil {
		return nil // Verify reports it
	}
	return checkFormat(dir, s.stream.format)
}

// Node returns the node's name as a token of subjects, "" if it is not known.
func (s *Stored) Node() string { return s.stream.node }

func (s *Stored) blocks(stream string) *blocks { return &blocks{dir: streamDir(s.dir, stream)} }

// checkStopped returns ErrServed if an agent has the journal open now.
func (s *Stored) checkStopped() error {
	served, err := Served(s.dir)
	if err == nil && served {
		return ErrServed
	}
	return err
}

// checkUnchanged is called at the end of a read, with its result. If an agent ran meanwhile, that is the error.
func (s *Stored) checkUnchanged(result error) error {
	h, err := readHead(s.dir)
	if s.checkStopped() != nil || err != nil && !errors.Is(err, errHeadDamaged) || h.GetEpoch() != s.head.GetEpoch() {
		return errStarted
	}
	return result
}

// maxMetaFile bounds what is read of a stream's own description: it has about 2 KiB.
const maxMetaFile = 1 << 20

// description is what the description of the journal's stream contains.
type description struct {
	node   string // as a token of its subjects; "" if unknown
	format int    // 0: unknown
}

// describe reads the stream's own description, without which the server does not find the stream.
func (s *Stored) describe() (d description, err error) {
	dir := filepath.Dir(s.blocks(journalStream).dir)
	b, err := bounded.ReadFile(filepath.Join(dir, server.JetStreamMetaFile), maxMetaFile)
	if err != nil {
		return d, err
	}
	sum, err := bounded.ReadFile(filepath.Join(dir, server.JetStreamMetaFileSum), maxMetaFile)
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
	damaged := hex.EncodeToString(hash.Sum(nil)) != string(sum)
	if damaged || bounded.JSON(b, maxMetaFile, &info) != nil || len(info.Subjects) != 1 {
		return d, fmt.Errorf("%s does not match its checksum", filepath.Join(dir, server.JetStreamMetaFile))
	}
	if rest, ok := strings.CutSuffix(info.Subjects[0], ".>"); ok {
		_, d.node, _ = cutLast(rest)
		d.format, _ = strconv.Atoi(info.Metadata[formatKey])
		return d, nil
	}
	return d, fmt.Errorf("%s names no node", filepath.Join(dir, server.JetStreamMetaFile))
}

// eachFrame reads the blocks of a stream in order. It passes whole records to f, and bytes that belong to no record
// to bad, with block, offset and reason.
func (s *Stored) eachFrame(ctx context.Context, stream, prefix string, f func(frame) error,
	bad func(block uint64, at int, why error)) error {
	bl := s.blocks(stream)
	numbers, err := s.numbers(bl)
	if err != nil {
		return err
	}
	return bl.eachFrame(ctx, stream, prefix, numbers, f, bad)
}

// eachBlock reads the blocks of the journal in order.
func (s *Stored) eachBlock(ctx context.Context, f func(*block) error) error {
	bl := s.blocks(journalStream)
	numbers, err := s.numbers(bl)
	if err != nil {
		return err
	}
	return bl.eachBlock(ctx, journalStream, s.prefix(), numbers, f)
}

// numbers returns the numbers of a stream's blocks; none if the stream was never created.
func (s *Stored) numbers(bl *blocks) ([]uint64, error) {
	numbers, err := bl.numbers()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return numbers, err
}

// prefix returns the prefix of the subjects of this journal's records.
func (s *Stored) prefix() string {
	return strings.TrimSuffix(messages.JournalFilter(s.stream.node), ".>")
}

// Verify does what Journal.Verify does, for a journal that no agent has open. It also reports what only the files
// show.
func (s *Stored) Verify(ctx context.Context, progress func(done, total uint64)) (VerifyReport, error) {
	v := &storedVerifier{
		verifier: verifier{head: s.head, node: s.stream.node, progress: progress, at: s.cut.first()}, s: s,
	}
	v.total = s.head.GetSeq() + 1 - min(s.cut.first(), s.head.GetSeq()+1)
	if s.meta != nil {
		v.r.problem(0, "the description of the journal's stream cannot be used: %v; the agent would not find the journal",
			s.meta)
	}
	err := s.eachBlock(ctx, v.block)
	if err = s.checkUnchanged(err); err != nil {
		return VerifyReport{}, fmt.Errorf("verify the journal: %w", err)
	}
	v.tail()
	return v.end(), nil
}

// Size does what Journal.Size does, for a journal that no agent has open. It skips records that cannot be read.
// progress may be nil.
func (s *Stored) Size(ctx context.Context, progress func(done, total uint64)) (SizeReport, error) {
	var r SizeReport
	m := newMeasure(&r)
	total := s.head.GetSeq() + 1 - min(s.cut.first(), s.head.GetSeq()+1)
	err := s.eachFrame(ctx, journalStream, s.prefix(), func(fr frame) error {
		if fr.removes || fr.gone || fr.seq < s.cut.first() {
			return nil
		}
		r.JournalDisk += uint64(fr.size)
		if rec, err := messages.Decode(fr.data); err == nil {
			m.add(rec, len(fr.data))
		}
		if n := r.Journal.Count; progress != nil && n%progressEvery == 0 {
			progress(n, max(n, total))
		}
		return nil
	}, func(uint64, int, error) {})
	if err != nil {
		return r, fmt.Errorf("measure the journal: %w", s.checkUnchanged(err))
	}
	m.end()
	for _, x := range []struct {
		stream      string
		disk, count *uint64
	}{{manifestStream, &r.ManifestsDisk, &r.Manifests}, {snapshotStream, &r.SnapshotsDisk, &r.Snapshots}} {
		if *x.disk, *x.count, err = s.newest(ctx, x.stream); err != nil {
			return r, fmt.Errorf("measure %s: %w", strings.ToLower(x.stream), s.checkUnchanged(err))
		}
	}
	return r, s.checkUnchanged(s.measureSets(ctx, &r))
}

func (s *Stored) measureSets(ctx context.Context, r *SizeReport) error {
	sets, err := s.sets(ctx)
	if err != nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(sets)) {
		index, err := s.index(ctx, at, sets[at])
		if err != nil {
			return err
		}
		if index != nil {
			r.addSet(at, index)
		}
	}
	return nil
}

// newest measures a stream that keeps the newest message of each subject.
func (s *Stored) newest(ctx context.Context, stream string) (disk, count uint64, err error) {
	index, err := (&keptMessages{stream: stream}).scan(ctx, s)
	for _, k := range index {
		disk += uint64(k.size)
	}
	return disk, uint64(len(index)), err
}

// storedVerifier checks records as they are in their blocks.
type storedVerifier struct {
	verifier
	s          *Stored
	begun      bool   // a record has been read
	unreadable string // damage met since the last record that could be read; "" for none
}

// block checks the records of one block.
func (v *storedVerifier) block(c *block) error {
	if c.err != nil {
		return c.err
	}
	all := examineAll(len(c.places), func(i int) examined {
		p := &c.places[i]
		if !p.isRecord() || p.seq < v.s.cut.first() {
			return examined{}
		}
		return examine(p.data, p.subject, v.node)
	})
	for i := range c.places {
		if p := &c.places[i]; p.bad != nil {
			v.bad(c.number, p.at, p.bad)
		} else {
			v.frame(p.frame, &all[i])
		}
	}
	return nil
}

// frame checks one whole record of a block.
func (v *storedVerifier) frame(fr frame, x *examined) {
	switch {
	case fr.removes && v.begun && fr.seq >= v.r.First && fr.seq < v.at:
		v.r.problem(fr.seq, "record %d was removed, and retention did not cut it", fr.seq)
		return
	case fr.removes, fr.gone, fr.seq < v.s.cut.first(): // a cut leaves some in the last block that it touches
		return
	case !v.begun:
		v.begun, v.r.First = true, fr.seq
		v.front(v.s.cut)
		if v.r.First > v.s.cut.first() {
			v.at = fr.seq
		}
	}
	if v.unreadable != "" {
		v.addUnreadable(fr.seq)
	}
	if x.foreign {
		v.r.problem(fr.seq, "record %d has the subject %q, which is not its own: it is another node's, or it was changed",
			fr.seq, fr.subject)
	}
	v.check(x)
}

// bad keeps the place where a block cannot be read. Which records are lost shows at the next readable record.
func (v *storedVerifier) bad(block uint64, at int, why error) {
	if v.unreadable == "" {
		v.unreadable = fmt.Sprintf("block %d is damaged at byte %d: %v", block, at, why)
	}
}

// addUnreadable reports what cannot be read before record next.
func (v *storedVerifier) addUnreadable(next uint64) {
	if next > v.at {
		v.gap(v.at, next-1, "cannot be read: "+v.unreadable)
		v.at, v.hash = next, nil
	} else {
		v.r.problem(v.at, "the bytes before record %d are no record: %s", next, v.unreadable)
	}
	v.unreadable = ""
}

// tail finishes the report after the last record.
func (v *storedVerifier) tail() {
	if !v.begun {
		v.r.First = v.at
	}
	v.r.Last = v.at - 1
	if v.unreadable != "" {
		v.r.problem(v.at,
			"after record %d the journal's end is torn: %s; the agent cuts it off when it starts, and keeps a copy",
			v.r.Last, v.unreadable)
	}
}
