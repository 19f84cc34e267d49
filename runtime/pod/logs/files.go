package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// maxRotated bounds how many rotated files of one log are read, the newest ones. Each takes a descriptor while a
	// client reads. containerLogMaxFiles is 5 by default, with the live one.
	maxRotated = 64
	// maxUnpackedBytes bounds what is read of one compressed file. A log that a container fills at 50 MB/s has 500 MB
	// after a rotation's interval.
	maxUnpackedBytes = 8 << 30
	// maxListings bounds how often a directory is listed again because a rotation changed it meanwhile.
	maxListings = 8
	// StampLayout is the form of the time in the name of a rotated log, 0.log.20060102-150405: the kubelet's.
	StampLayout = "20060102-150405"
	// Packed is what the name of a compressed log ends in: the kubelet's.
	Packed = ".gz"
)

// Rotated returns the stamp of a file that was rotated from the log base, and whether it is compressed; ok is false for
// any other name.
func Rotated(base, name string) (stamp string, packed, ok bool) {
	stamp, ok = strings.CutPrefix(name, base+".")
	if !ok {
		return "", false, false
	}
	stamp, packed = strings.CutSuffix(stamp, Packed)
	if len(stamp) != len(StampLayout) {
		return "", false, false
	}
	for i, c := range []byte(stamp) {
		if digit := c >= '0' && c <= '9'; digit == (StampLayout[i] == '-') || !digit && c != '-' {
			return "", false, false
		}
	}
	return stamp, packed, true
}

// source is one file of a log, opened.
type source struct {
	f      *os.File
	id     fileID
	size   int64 // when it was opened
	packed bool

	start int64 // where reading begins
	skip  int64 // lines of a packed file that are not read
}

// fileID distinguishes files while they are open.
type fileID struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) fileID { return fileID{st.Dev, st.Ino} }

func openSource(dir *bounded.Held, name string) (*source, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &source{f: f, id: idOf(&st), size: st.Size, packed: strings.HasSuffix(name, Packed)}, nil
}

// written reports whether a process has the file open for writing. The kernel grants a lease for reading only if none
// has. It is given back at once: who opens the file for writing meanwhile is held up for that long. The error is that
// of a file system without leases.
func (s *source) written() (bool, error) {
	_, err := unix.FcntlInt(s.f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return true, nil
	}
	if err == nil {
		_, err = unix.FcntlInt(s.f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return false, err
}

// reader returns a reader of the file from its start, bounded if it is packed.
func (s *source) reader() (io.Reader, error) {
	if !s.packed {
		_, err := s.f.Seek(s.start, io.SeekStart)
		return s.f, err
	}
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(io.LimitReader(s.f, s.size))
	if err != nil {
		return nil, err
	}
	return &unpacker{z, maxUnpackedBytes}, nil
}

// unpacker reads a compressed file up to a bound, beyond which it is an error.
type unpacker struct {
	from io.Reader
	left int64
}

func (u *unpacker) Read(b []byte) (int, error) {
	if u.left <= 0 {
		return 0, fmt.Errorf("it unpacks to more than %d bytes; the rest is left out", int64(maxUnpackedBytes))
	}
	n, err := u.from.Read(b[:min(int64(len(b)), u.left)])
	u.left -= int64(n)
	return n, err
}

// files are the files of one log, opened, oldest first. The live one, if any, is the last one.
type files struct {
	all  []*source
	live bool
}

func (all *files) close() {
	for _, s := range all.all {
		_ = s.f.Close()
	}
	all.all = nil
}

// openFiles opens the files of the log base. The live one is opened first: if it is rotated meanwhile, it is found by
// its identity and read once. Problems are files that cannot be read.
func openFiles(dir *bounded.Held, base string, report *Report) (*files, error) {
	live, liveErr := openSource(dir, base)
	if liveErr != nil && !errors.Is(liveErr, fs.ErrNotExist) {
		report.problem("%w", liveErr)
	}
	all := &files{}
	for i := 1; ; i++ {
		var problems Report
		same, err := all.openRotated(dir, base, &problems)
		if err != nil {
			problems.problem("%w", err)
		}
		if same || err != nil || i == maxListings {
			report.merge(&problems)
			break
		}
		all.close()
	}
	if live != nil {
		all.all = slices.DeleteFunc(all.all, func(s *source) bool {
			if s.id == live.id {
				_ = s.f.Close()
			}
			return s.id == live.id
		})
		all.all, all.live = append(all.all, live), true
	}
	if len(all.all) == 0 {
		return nil, liveErr
	}
	return all, nil
}

// openRotated opens the rotated files. It reports whether the directory stayed the same meanwhile.
func (all *files) openRotated(dir *bounded.Held, base string, report *Report) (same bool, err error) {
	before, err := dir.ListStamp()
	if err != nil {
		return false, err
	}
	names, err := rotatedNames(dir, base)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		s, err := openSource(dir, name)
		switch {
		case err == nil:
			all.all = append(all.all, s)
		case !errors.Is(err, fs.ErrNotExist): // another listing finds what became of it
			report.problem("%w", err)
		}
	}
	after, err := dir.ListStamp()
	return before.Equal(after), err
}

// NewestRotated returns the name of the newest file that was rotated from the log base; empty for none, and where it is
// compressed.
func NewestRotated(dir *bounded.Held, base string) (string, error) {
	names, err := rotatedNames(dir, base)
	if err != nil || len(names) == 0 || strings.HasSuffix(names[len(names)-1], Packed) {
		return "", err
	}
	return names[len(names)-1], nil
}

// rotatedNames returns the names of the newest rotated files, oldest first. While a file is being compressed there are
// two copies of it; the uncompressed copy counts.
func rotatedNames(dir *bounded.Held, base string) ([]string, error) {
	var names []string
	for e, err := range dir.Entries() {
		if err != nil {
			return nil, err
		}
		if _, _, ok := Rotated(base, e.Name()); !ok {
			continue
		}
		i, _ := slices.BinarySearch(names, e.Name())
		names = slices.Insert(names, i, e.Name())
		if len(names) > 2*maxRotated {
			names = names[1:]
		}
	}
	out := names[:0]
	for _, name := range names {
		// The packed name comes right after the other one.
		if n := len(out); n > 0 && out[n-1]+Packed == name {
			continue
		}
		out = append(out, name)
	}
	return out[max(0, len(out)-maxRotated):], nil
}
