package bounded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// dirBatch is how many entries of a directory are in memory at once.
const dirBatch = 256

// Entries yields the entries of a directory in no order, in constant memory however many there are. An error ends it.
// It follows links, because the operator names the path.
func Entries(path string) iter.Seq2[fs.DirEntry, error] {
	return entriesOf(func() (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0) })
}

// EntriesIn is Entries of a directory below root, which is no link.
func EntriesIn(root *os.Root, name string) iter.Seq2[fs.DirEntry, error] {
	return entriesOf(func() (*os.File, error) {
		// By way of O_PATH: with it, os.Root opens a link itself.
		at, err := root.OpenFile(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		defer at.Close()
		fd, err := retry(func() (int, error) {
			return unix.Openat(int(at.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: at.Name(), Err: err}
		}
		return os.NewFile(uintptr(fd), at.Name()), nil
	})
}

func entriesOf(open func() (*os.File, error)) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		f, err := open()
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		for {
			entries, err := f.ReadDir(dirBatch)
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Limits of Files. A tree beyond them is an error, because nobody keeps so much configuration.
const (
	maxTreeEntries = 10000
	maxTreeDepth   = 16
)

// Files returns the paths of the files below dir with the extension ext, such as ".conf", in lexical order by
// directory. It follows no link to a directory. More than limit files are an error.
func Files(dir, ext string, limit int) ([]string, error) {
	t := tree{ext: ext, limit: limit}
	err := t.add(dir, 0)
	return t.files, err
}

type tree struct {
	ext     string
	limit   int
	entries int
	files   []string
}

func (t *tree) add(dir string, depth int) error {
	if depth > maxTreeDepth {
		return fmt.Errorf("%s is more than %d directories deep; use fewer", dir, maxTreeDepth)
	}
	var here []fs.DirEntry
	for e, err := range Entries(dir) {
		if err != nil {
			return err
		}
		if t.entries++; t.entries > maxTreeEntries {
			return fmt.Errorf("more than %d files; name a directory of its own", maxTreeEntries)
		}
		here = append(here, e)
	}
	slices.SortFunc(here, func(a, b fs.DirEntry) int {
		if a.Name() < b.Name() {
			return -1
		}
		return 1
	})
	for _, e := range here {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			if err := t.add(path, depth+1); err != nil {
				return err
			}
		case filepath.Ext(e.Name()) == t.ext:
			if t.files = append(t.files, path); len(t.files) > t.limit {
				return fmt.Errorf("more than %d files with the extension %s; merge some of them", t.limit, t.ext)
			}
		}
	}
	return nil
}
