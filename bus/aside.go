package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// asideDir holds what a damaged journal looked like, for people.
	asideDir = "damaged"
	// maxAside bounds of how many openings it is kept, maxAsideBlocks how many blocks of one; each has 8 MiB or so.
	maxAside       = 4
	maxAsideBlocks = 32
	// seenFile notes how the journal's blocks looked when they were last known to be sound, so that only what was
	// written or touched since is read at an opening.
	seenFile  = "SEEN"
	indexFile = "index.db"
)

// aside is what was set aside before the server opened the journal. Its recovery cuts a block at the first place that it
// cannot read, with all that follows, and what is cut may be all that tells what happened.
type aside struct {
	paths []string
	more  int // damaged blocks that were not copied, beyond maxAsideBlocks
	// inner says where a block is damaged other than at the journal's end, "" for nowhere.
	inner string
	// description says that the stream's own description was damaged or missing, with its blocks there.
	description bool
}

// setAside reads the blocks that are in doubt and copies those that are damaged. epoch numbers the run that begins.
func setAside(dir string, epoch uint64) (*aside, error) {
	a := &aside{}
	bl := blocks{dir: streamDir(dir, journalStream)}
	numbers, err := bl.numbers()
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bus: look at the journal's files: %w", err)
	}
	slices.Sort(numbers)
	if err := a.describe(dir, epoch, len(numbers) > 0); err != nil {
		return nil, err
	}
	for _, n := range doubtful(&bl, dir, numbers) {
		at, tail, err := damagedAt(&bl, n)
		if err != nil {
			return nil, fmt.Errorf("bus: look at the journal's files: %w", err)
		}
		if at < 0 {
			continue
		}
		if (!tail || n != numbers[len(numbers)-1]) && a.inner == "" {
			a.inner = fmt.Sprintf("block %d of the journal is damaged at byte %d", n, at)
		}
		if err := a.copy(dir, bl.path(n), epoch, fmt.Sprintf("block-%d.blk", n)); err != nil {
			return nil, err
		}
	}
	if len(a.paths) == 0 {
		return a, nil
	}
	return a, trimAside(filepath.Join(dir, asideDir))
}

// describe moves a description of the stream away that cannot be used: the server would leave it where it is, and not see
// the stream at the next start either.
func (a *aside) describe(dir string, epoch uint64, filled bool) error {
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
			return fmt.Errorf("bus: set the journal's description aside: %w", err)
		}
	}
	return nil
}

func (a *aside) copy(dir, from string, epoch uint64, as string) error {
	if len(a.paths) >= maxAsideBlocks {
		a.more++
		return nil
	}
	to := filepath.Join(dir, asideDir)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("bus: set what is damaged aside: %w", err)
	}
	path := filepath.Join(to, fmt.Sprintf("%s%020d-%s", asidePrefix, epoch, as))
	// One is there where a start with this epoch was refused: what it found is older, and so nearer to what happened.
	for n, first := 2, path; exists(path); n++ {
		if n > maxAsideBlocks {
			a.more++
			return nil
		}
		path = fmt.Sprintf("%s.%d", first, n)
	}
	if err := copyFile(from, path); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("bus: set what is damaged aside: %w", err)
	}
	a.paths = append(a.paths, path)
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// where tells people where to look; "" if nothing was set aside.
func (a *aside) where() string {
	switch {
	case len(a.paths) == 0:
		return ""
	case len(a.paths) == 1:
		return "; as it was found it is kept in " + a.paths[0]
	case a.more == 0:
		return fmt.Sprintf("; as they were found %d damaged files are kept in %s", len(a.paths), filepath.Dir(a.paths[0]))
	}
	return fmt.Sprintf("; as they were found %d damaged files are kept in %s, and %d more had no room there", len(a.paths), filepath.Dir(a.paths[0]), a.more)
}

// drop removes copies that nobody needs, and the folder if they were the only ones.
func (a *aside) drop() {
	for _, path := range a.paths {
		_ = os.Remove(path)
		_ = os.Remove(filepath.Dir(path))
	}
}

// damagedAt is the place of the first byte of a block that is no record, -1 if there is none; tail says that no whole
// record follows it.
func damagedAt(bl *blocks, n uint64) (at int, tail bool, err error) {
	at, tail = -1, true
	whole := func(frame) error { tail = at < 0; return nil }
	err = bl.scanBlock(journalStream, n, journalSubjects, whole, func(place int, _ error) {
		if at < 0 {
			at = place
		}
	})
	return at, tail, err
}

// doubtful are the blocks that the server's recovery may cut. It leaves them all as they are while it trusts its own
// index; then only those are read that changed since they were noted.
func doubtful(bl *blocks, dir string, numbers []uint64) []uint64 {
	seen := readSeen(dir)
	if len(numbers) == 0 || !indexFits(bl, numbers[len(numbers)-1]) {
		return numbers
	}
	for n := range seen {
		if !slices.Contains(numbers, n) { // then it reads them all
			return numbers
		}
	}
	now := lookAtBlocks(bl, numbers)
	return slices.DeleteFunc(slices.Clone(numbers), func(n uint64) bool { return seen[n] != (blockLook{}) && seen[n] == now[n] })
}

// indexFits tells whether the server will take its index at its word: it is whole, and its last word is the checksum
// that the last block ends with.
func indexFits(bl *blocks, last uint64) bool {
	b, err := os.ReadFile(filepath.Join(bl.dir, indexFile))
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
	f, err := os.Open(bl.path(last))
	if err != nil {
		return false
	}
	defer f.Close()
	var word [frameSum]byte
	_, err = f.Seek(-frameSum, io.SeekEnd)
	if err == nil {
		_, err = io.ReadFull(f, word[:])
	}
	return err == nil && bytes.Equal(word[:], b[end-frameSum:end])
}

// blockLook is what a block looks like from outside.
type blockLook struct {
	Size int64 `json:"size"`
	Time int64 `json:"time"` // of the last change, in ns
}

func lookAtBlocks(bl *blocks, numbers []uint64) map[uint64]blockLook {
	out := make(map[uint64]blockLook, len(numbers))
	for _, n := range numbers {
		if info, err := os.Stat(bl.path(n)); err == nil {
			out[n] = blockLook{info.Size(), info.ModTime().UnixNano()}
		}
	}
	return out
}

// readSeen gives nothing if there is no note or it cannot be read: then more is read than has to be.
func readSeen(dir string) map[uint64]blockLook {
	seen := map[uint64]blockLook{}
	b, err := os.ReadFile(filepath.Join(dir, seenFile))
	if err != nil || json.Unmarshal(b, &seen) != nil {
		return nil
	}
	return seen
}

// writeSeen notes how the blocks look now. Without the note more is read at the next opening, so an error is no harm.
func writeSeen(dir string) {
	bl := blocks{dir: streamDir(dir, journalStream)}
	numbers, err := bl.numbers()
	if err != nil {
		return
	}
	if b, err := json.Marshal(lookAtBlocks(&bl, numbers)); err == nil {
		_ = writeFileDurably(filepath.Join(dir, seenFile), b)
	}
}

const asidePrefix = "before-epoch-"

// trimAside removes the copies of the oldest openings; their names sort by age.
func trimAside(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("bus: look at what was set aside: %w", err)
	}
	openings := map[string][]string{}
	for _, f := range files {
		rest, ours := strings.CutPrefix(f.Name(), asidePrefix)
		if epoch, _, ok := strings.Cut(rest, "-"); ours && ok {
			openings[epoch] = append(openings[epoch], f.Name())
		}
	}
	epochs := make([]string, 0, len(openings))
	for e := range openings {
		epochs = append(epochs, e)
	}
	slices.Sort(epochs)
	for _, e := range epochs[:max(len(epochs)-maxAside, 0)] {
		for _, name := range openings[e] {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("bus: remove what was set aside: %w", err)
			}
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
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
