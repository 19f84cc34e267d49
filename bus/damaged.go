package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

const (
	// damagedDir holds copies of damaged files, for a person to inspect.
	damagedDir = "damaged"
	// maxCopiedStarts bounds of how many starts copies are kept, maxCopiedFiles how many of one start; a block has
	// about 8 MiB.
	maxCopiedStarts = 4
	maxCopiedFiles  = 32
	// seenFile holds size and time of the journal's blocks when they were last known to be sound, so that a start
	// reads only the blocks that changed since.
	seenFile  = "SEEN"
	indexFile = "index.db"
	// maxSeenFile and maxIndexFile bound what is read of them: some 60 bytes for each of the few hundred blocks, and 100
	// for each subject. Without them a start reads all blocks.
	maxSeenFile  = 1 << 20
	maxIndexFile = 64 << 20
)

// damagedFiles are the damaged files of the journal, copied before the server opened them. The server's recovery cuts
// a block at the first place that it cannot read, with all that follows, and what it cuts may be the only trace of
// what happened.
type damagedFiles struct {
	paths []string
	more  int // damaged files that were not copied, beyond maxCopiedFiles
	// damagedBlock names the first place of damage other than at the journal's end; "" without such damage.
	damagedBlock string
	// description: the stream's own description was damaged or missing, and its blocks are there.
	description bool
}

// copyDamaged reads the blocks in doubt and copies the damaged ones. epoch is the epoch of the run that begins.
func copyDamaged(dir string, epoch uint64) (*damagedFiles, error) {
	a := &damagedFiles{}
	bl := blocks{dir: streamDir(dir, journalStream)}
	numbers, err := bl.numbers()
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bus: read the journal's files: %w", err)
	}
	slices.Sort(numbers)
	if err := a.describe(dir, epoch, len(numbers) > 0); err != nil {
		return nil, err
	}
	for _, n := range blocksInDoubt(&bl, dir, numbers) {
		at, tail, err := damagedAt(&bl, n)
		if err != nil {
			return nil, fmt.Errorf("bus: read the journal's files: %w", err)
		}
		if at < 0 {
			continue
		}
		if (!tail || n != numbers[len(numbers)-1]) && a.damagedBlock == "" {
			a.damagedBlock = fmt.Sprintf("block %d of the journal is damaged at byte %d", n, at)
		}
		if err := a.copy(dir, bl.path(n), epoch, fmt.Sprintf("block-%d.blk", n)); err != nil {
			return nil, err
		}
	}
	if len(a.paths) == 0 {
		return a, nil
	}
	return a, trimCopies(filepath.Join(dir, damagedDir))
}

// describe moves a description of the stream away that cannot be used: the server would leave it, and not find the
// stream at the next start either.
func (a *damagedFiles) describe(dir string, epoch uint64, filled bool) error {
	_, err := (&Stored{dir: dir}).describe()
	if err == nil || !filled {
		return nil
	}
	a.description = true
	for _, name := range []string{server.JetStreamMetaFile, server.JetStreamMetaFileSum} {
		path := filepath.Join(filepath.Dir(streamDir(dir, journalStream)), name)
		if err := a.copy(dir, path, epoch, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bus: move the journal's description away: %w", err)
		}
	}
	return nil
}

func (a *damagedFiles) copy(dir, from string, epoch uint64, as string) error {
	if len(a.paths) >= maxCopiedFiles {
		a.more++
		return nil
	}
	to := filepath.Join(dir, damagedDir)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("bus: copy a damaged file: %w", err)
	}
	path := filepath.Join(to, fmt.Sprintf("%s%020d-%s", copyPrefix, epoch, as))
	// A start with this epoch was refused and left a copy: that copy is older and more complete, so it stays.
	for n, first := 2, path; exists(path); n++ {
		if n > maxCopiedFiles {
			a.more++
			return nil
		}
		path = fmt.Sprintf("%s.%d", first, n)
	}
	if err := copyFile(from, path); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("bus: copy a damaged file: %w", err)
	}
	a.paths = append(a.paths, path)
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// location names the copies at the end of a message; "" without copies.
func (a *damagedFiles) location() string {
	switch {
	case len(a.paths) == 0:
		return ""
	case len(a.paths) == 1:
		return "; a copy is in " + a.paths[0]
	case a.more == 0:
		return fmt.Sprintf("; copies of %d damaged files are in %s", len(a.paths), filepath.Dir(a.paths[0]))
	}
	return fmt.Sprintf("; copies of %d damaged files are in %s, and %d more were not copied",
		len(a.paths), filepath.Dir(a.paths[0]), a.more)
}

// drop removes copies that turned out not to be needed, and their directory if it is empty then.
func (a *damagedFiles) drop() {
	for _, path := range a.paths {
		_ = os.Remove(path)
		_ = os.Remove(filepath.Dir(path))
	}
}

// damagedAt returns the offset of a block's first byte that belongs to no record; -1 if there is no such byte. tail
// reports whether no whole record follows it.
func damagedAt(bl *blocks, n uint64) (at int, tail bool, err error) {
	var c block
	if err := c.read(bl, journalStream, journalSubjects, n); err != nil {
		return -1, true, err
	}
	at, tail = -1, true
	for _, p := range c.places {
		if p.bad == nil {
			tail = at < 0
		} else if at < 0 {
			at = p.at
		}
	}
	return at, tail, nil
}

// blocksInDoubt returns the blocks that the server's recovery may cut. It cuts none while it trusts its own index;
// then only blocks that changed since writeSeen are in doubt.
func blocksInDoubt(bl *blocks, dir string, numbers []uint64) []uint64 {
	seen := readSeen(dir)
	if len(numbers) == 0 || !indexFits(bl, numbers[len(numbers)-1]) {
		return numbers
	}
	for n := range seen {
		if !slices.Contains(numbers, n) { // the server then reads all blocks
			return numbers
		}
	}
	now := statBlocks(bl, numbers)
	return slices.DeleteFunc(slices.Clone(numbers),
		func(n uint64) bool { return seen[n] != (blockStat{}) && seen[n] == now[n] })
}

// indexFits reports whether the server will trust its index: it is whole, and ends with the checksum that the last
// block ends with.
func indexFits(bl *blocks, last uint64) bool {
	b, err := bounded.ReadFile(filepath.Join(bl.dir, indexFile), maxIndexFile)
	if err != nil || len(b) < 2*frameSum {
		return false
	}
	hash, err := newStoreHash(journalStream)
	if err != nil {
		return false
	}
	end := len(b) - frameSum
	_, _ = hash.Write(b[:end]) // never fails
	if !bytes.Equal(hash.Sum(nil), b[end:]) {
		return false
	}
	f, err := bounded.Open(bl.path(last))
	if err != nil {
		return false
	}
	defer f.Close()
	var sum [frameSum]byte
	_, err = f.Seek(-frameSum, io.SeekEnd)
	if err == nil {
		_, err = io.ReadFull(f, sum[:])
	}
	return err == nil && bytes.Equal(sum[:], b[end-frameSum:end])
}

// blockStat is a block's size and time of change.
type blockStat struct {
	Size int64 `json:"size"`
	Time int64 `json:"time"` // of the last change, in ns
}

func statBlocks(bl *blocks, numbers []uint64) map[uint64]blockStat {
	out := make(map[uint64]blockStat, len(numbers))
	for _, n := range numbers {
		if info, err := os.Stat(bl.path(n)); err == nil {
			out[n] = blockStat{info.Size(), info.ModTime().UnixNano()}
		}
	}
	return out
}

// readSeen returns nil if there is no such file or it cannot be read: then a start reads all blocks.
func readSeen(dir string) map[uint64]blockStat {
	seen := map[uint64]blockStat{}
	b, err := bounded.ReadFile(filepath.Join(dir, seenFile), maxSeenFile)
	if err != nil || bounded.JSON(b, maxSeenFile, &seen) != nil {
		return nil
	}
	return seen
}

// writeSeen stores size and time of the blocks. Without it the next start reads more, so an error is ignored.
func writeSeen(dir string) {
	bl := blocks{dir: streamDir(dir, journalStream)}
	numbers, err := bl.numbers()
	if err != nil {
		return
	}
	if b, err := json.Marshal(statBlocks(&bl, numbers)); err == nil {
		_ = durable.Write(filepath.Join(dir, seenFile), b)
	}
}

const copyPrefix = "before-epoch-"

// trimCopies removes the copies of the oldest starts; their names sort by age.
func trimCopies(dir string) error {
	starts := map[string][]string{}
	for f, err := range bounded.Entries(dir) {
		if err != nil {
			return fmt.Errorf("bus: list copies of damaged files: %w", err)
		}
		rest, ours := strings.CutPrefix(f.Name(), copyPrefix)
		if epoch, _, ok := strings.Cut(rest, "-"); ours && ok {
			starts[epoch] = append(starts[epoch], f.Name())
		}
	}
	epochs := slices.Sorted(maps.Keys(starts))
	for _, e := range epochs[:max(len(epochs)-maxCopiedStarts, 0)] {
		for _, name := range starts[e] {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("bus: remove a copy of a damaged file: %w", err)
			}
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := bounded.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, maxBlock))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
