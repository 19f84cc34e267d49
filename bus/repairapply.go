package bus

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/durable"
)

// repairedPrefix begins the names of directories that hold what repairs have set aside. Nothing ever removes them.
const repairedPrefix = "repaired-"

// Apply repairs the journal. It copies each file that it changes into a directory below damaged/, removes from the
// blocks what is damaged and what no state can be computed from, and then opens the bus as the agent does, to record
// the loss and to end the journal cleanly. A crash between any two steps leaves a journal that the agent starts with,
// and that can be repaired again. It fails while an agent runs.
func (r *Repair) Apply(ctx context.Context, log *slog.Logger) error {
	if r.Report.Sound {
		return nil
	}
	if r.node == "" {
		return errors.New("repair the journal: no record and no description names its node: start the agent, " +
			"which begins a new journal")
	}
	if err := r.replaceFiles(); err != nil {
		return fmt.Errorf("repair the journal: %w", err)
	}
	if err := r.record(ctx, log); err != nil {
		return fmt.Errorf("repair the journal: its files are repaired, and recording the loss failed: %w", err)
	}
	s, err := OpenStored(r.s.dir)
	if err != nil {
		return fmt.Errorf("check the repaired journal: %w", err)
	}
	v, err := s.Verify(ctx, nil)
	if err != nil {
		return fmt.Errorf("check the repaired journal: %w", err)
	}
	if !v.OK() {
		return fmt.Errorf("the repaired journal still has %d problems, the first one: record %d: %s", v.Found,
			v.Problems[0].Seq, v.Problems[0].Message)
	}
	return nil
}

// change is a file to be set aside, and what takes its place: nothing if frames is nil.
type change struct {
	path   string // below the bus's directory
	stream string // of a block
	block  uint64
}

func (r *Repair) replaceFiles() error {
	lock, err := acquireLock(r.s.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := r.s.unchangedSince(); err != nil {
		return err
	}
	blocks, err := r.changedBlocks()
	if err != nil {
		return err
	}
	aside := filepath.Join(r.s.dir, damagedDir, repairedPrefix+time.Now().UTC().Format("20060102T150405.000000000Z"))
	if err := r.setAside(aside, blocks); err != nil {
		return fmt.Errorf("set the damaged part aside: %w", err)
	}
	for _, c := range blocks {
		if err := r.rewrite(c); err != nil {
			return err
		}
	}
	// Without their indexes the store reads all blocks again, and without the note of sound blocks so does the bus.
	for _, path := range indexes() {
		if err := os.Remove(filepath.Join(r.s.dir, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if r.cutWrong && r.cutFrom != r.s.cut.first() {
		c := &cut{First: r.s.cut.first(), PreviousHash: hex.EncodeToString(r.previous)}
		return c.write(r.s.dir)
	}
	return nil
}

// indexes returns the files that describe blocks, below the bus's directory. They can be computed again.
func indexes() []string {
	out := []string{seenFile}
	for _, stream := range []string{journalStream, manifestStream, snapshotStream} {
		out = append(out, filepath.Join(streamDir("", stream), indexFile))
	}
	return out
}

// unchangedSince fails if an agent ran since the check. The caller holds the lock.
func (s *Stored) unchangedSince() error {
	h, err := readHead(s.dir)
	if err != nil && !errors.Is(err, errHeadDamaged) {
		return err
	}
	if h.GetEpoch() != s.head.GetEpoch() || h.GetSeq() != s.head.GetSeq() {
		return errStarted
	}
	return nil
}

// changedBlocks returns the blocks that have something to be removed.
func (r *Repair) changedBlocks() (out []change, err error) {
	for _, stream := range []string{journalStream, manifestStream, snapshotStream} {
		bl := r.s.blocks(stream)
		numbers, err := r.s.numbers(bl)
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			is := r.damaged[stream][n]
			if stream == journalStream && !is {
				if is, err = r.removesFrom(bl, n); err != nil {
					return nil, err
				}
			}
			if is {
				out = append(out, change{path: r.below(bl.path(n)), stream: stream, block: n})
			}
		}
	}
	return out, nil
}

func (r *Repair) below(path string) string {
	rel, err := filepath.Rel(r.s.dir, path)
	if err != nil {
		return path
	}
	return rel
}

// removesFrom reports whether records of a block do not stay.
func (r *Repair) removesFrom(bl *blocks, n uint64) (bool, error) {
	if len(r.drop[n]) > 0 || r.cutFrom == 0 {
		return len(r.drop[n]) > 0, nil
	}
	var c block
	if err := c.read(bl, journalStream, r.s.prefix(), n); err != nil {
		return false, err
	}
	return slices.ContainsFunc(c.places, func(p place) bool { return p.isRecord() && p.seq >= r.cutFrom }), nil
}

// setAside copies the blocks, and the files without which the copy is no journal, into dir, under their own names.
func (r *Repair) setAside(dir string, blocks []change) error {
	paths := append(indexes(), headFile, cutFile, holesFile)
	meta := filepath.Dir(streamDir(r.s.dir, journalStream))
	for _, name := range []string{server.JetStreamMetaFile, server.JetStreamMetaFileSum} {
		paths = append(paths, r.below(filepath.Join(meta, name)))
	}
	for _, c := range blocks {
		paths = append(paths, c.path)
	}
	for _, path := range paths {
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		err := copyFile(filepath.Join(r.s.dir, path), to)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = durable.SyncDir(filepath.Dir(to))
		}
		if err != nil {
			return err
		}
		r.Report.Files = append(r.Report.Files, path)
	}
	r.Report.SetAside = dir
	return durable.SyncDir(filepath.Dir(dir))
}

// rewrite replaces a block by what stays of it.
func (r *Repair) rewrite(b change) error {
	bl := r.s.blocks(b.stream)
	prefix := strings.ToLower(strings.TrimSuffix(b.stream, "S")) + "."
	if b.stream == journalStream {
		prefix = r.s.prefix()
	}
	var c block
	if err := c.read(bl, b.stream, prefix, b.block); err != nil {
		return err
	}
	var stay []byte
	records := false
	for _, p := range c.places {
		if p.bad != nil {
			continue
		}
		if b.stream == journalStream && (r.drop[b.block][p.at] || p.isRecord() && r.cutFrom > 0 && p.seq >= r.cutFrom) {
			continue
		}
		records = records || p.isRecord()
		stay = append(stay, c.data[p.at:p.at+p.size]...)
	}
	if !records {
		if err := os.Remove(bl.path(b.block)); err != nil {
			return err
		}
		return durable.SyncDir(bl.dir)
	}
	return durable.Write(bl.path(b.block), stay)
}

// record opens the bus as the agent does, and records what is lost.
func (r *Repair) record(ctx context.Context, log *slog.Logger) error {
	// A node's name is a DNS subdomain, so an underscore of its token is a dot.
	b, err := Open(ctx, Options{Dir: r.s.dir, Node: strings.ReplaceAll(r.node, "_", "."), Log: log})
	if err != nil {
		return err
	}
	damage := b.Opening().Damage
	for _, l := range r.Report.Lost {
		if r.cutFrom > 0 && l.From >= r.cutFrom || l.From > b.Opening().Last {
			continue // of the end: the opening reports it
		}
		err = errors.Join(err, appendDamage(b, &journaletv1.JournalDamaged{ExpectedSeq: l.To, FoundSeq: l.From - 1,
			Message: fmt.Sprintf("records %d to %d are lost; what is left of them was set aside by a repair", l.From, l.To)}))
	}
	if damage != nil {
		err = errors.Join(err, appendDamage(b, damage))
	}
	return errors.Join(err, b.Close(ctx))
}

func appendDamage(b *Bus, d *journaletv1.JournalDamaged) error {
	return b.Journal().Append(&journaletv1.Record{
		Time: timestamppb.Now(), Actor: messages.Agent.Proto(),
		Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(d)},
	})
}
