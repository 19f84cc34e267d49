package runtimeclass

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	nodev1 "k8s.io/api/node/v1"

	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// maxFiles bounds the files of the folder, and maxFileBytes each of them: a node has a handful of classes.
	maxFiles     = 64
	maxFileBytes = 1 << 20
)

// Directory is a file or a folder of runtime classes. Its methods may be called concurrently.
type Directory struct {
	path string
	log  *slog.Logger

	mu        sync.Mutex
	files     map[string]*file // by path
	current   *manifest.RuntimeClasses
	sum       [sha256.Size]byte // of all that current was made of
	lastError string            // last complaint about the path
}

// file is what one file held when it was good last.
type file struct {
	sum      [sha256.Size]byte // of what was read last, good or not
	classes  []*nodev1.RuntimeClass
	problems []manifest.Problem
}

// New makes a folder; nothing is read yet. A path that is not there holds no class.
func New(path string, log *slog.Logger) *Directory {
	return &Directory{path: path, log: log.With("path", path), files: map[string]*file{}}
}

// Current gives the classes as they are now: the same pointer as before unless one has changed. A file that cannot be read, or
// has a mistake, keeps what it held before; what is wrong with it is logged once.
func (f *Directory) Current() *manifest.RuntimeClasses {
	f.mu.Lock()
	defer f.mu.Unlock()
	paths, err := f.list()
	defer func() { f.logOnce(err) }()
	if err != nil {
		return f.current
	}
	for path := range f.files {
		if !slices.Contains(paths, path) {
			delete(f.files, path)
		}
	}
	all, hash := []*nodev1.RuntimeClass{}, sha256.New()
	for _, path := range paths {
		if failed := f.read(path); failed != nil {
			err = failed
		}
		if read := f.files[path]; read != nil {
			all = append(all, read.classes...)
			hash.Write(read.sum[:])
		}
		_, _ = io.WriteString(hash, path)
	}
	if sum := [sha256.Size]byte(hash.Sum(nil)); f.current == nil || sum != f.sum {
		var twice []string
		f.sum = sum
		f.current, twice = manifest.NewRuntimeClasses(all)
		f.log.Info("runtime classes read", "classes", strings.Join(f.current.Names(), ","))
		for _, name := range twice {
			f.log.Warn("a runtime class is there twice: the first counts", "class", name)
		}
	}
	return f.current
}

// Problems are what is wrong with the files as Current read them last, as "path:line: field: text".
func (f *Directory) Problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	if f.lastError != "" {
		all = append(all, f.lastError)
	}
	for _, read := range f.files {
		for _, p := range read.problems {
			all = append(all, p.Error())
		}
	}
	slices.Sort(all)
	return all
}

// list gives the files in lexical order; none where the path is not there.
func (f *Directory) list() ([]string, error) {
	st, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !st.IsDir():
		return []string{f.path}, nil
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		path := filepath.Join(f.path, e.Name())
		if st, err := os.Stat(path); strings.HasPrefix(e.Name(), ".") || err != nil || !st.Mode().IsRegular() {
			continue
		}
		paths = append(paths, path)
	}
	if len(paths) > maxFiles {
		return nil, fmt.Errorf("%d files, and %d may hold runtime classes; put several classes into one file", len(paths), maxFiles)
	}
	return paths, nil
}

// read takes in one file, if it has changed. After an error it holds what it held before.
func (f *Directory) read(path string) error {
	data, err := readBounded(path)
	if err != nil {
		return err
	}
	was, sum := f.files[path], sha256.Sum256(data)
	if was != nil && was.sum == sum {
		return nil
	}
	now := &file{sum: sum}
	now.classes, now.problems = manifest.DecodeRuntimeClasses(path, data)
	for _, p := range now.problems {
		f.log.Warn("runtime class problem", "problem", p.Error())
	}
	if len(now.problems) > 0 && was != nil {
		now.classes = keep(was.classes, now.classes)
	}
	f.files[path] = now
	return nil
}

// keep adds to what is good now what was good before and is not there now.
func keep(before, now []*nodev1.RuntimeClass) []*nodev1.RuntimeClass {
	for _, c := range before {
		if !slices.ContainsFunc(now, func(n *nodev1.RuntimeClass) bool { return n.Name == c.Name }) {
			now = append(now, c)
		}
	}
	return now
}

func readBounded(path string) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("%s: more than %d bytes; is it a file of runtime classes?", path, maxFileBytes)
	}
	return data, err
}

// logOnce logs why the path cannot be read, once; nil: it can.
func (f *Directory) logOnce(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.lastError {
		f.log.Error("runtime classes not read; those that were known go on", "error", err)
	}
	f.lastError = text
}
