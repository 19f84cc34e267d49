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

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// maxFiles bounds the files of the directory, and maxFileBytes each of them: a node has few classes.
	maxFiles     = 64
	maxFileBytes = 1 << 20
)

// Directory is a file or a directory of runtime classes, and the classes among the objects of other paths. Its methods
// may be called concurrently.
type Directory struct {
	path   string
	others []string
	log    *slog.Logger

	mu        sync.Mutex
	files     map[string]*file // by path
	current   *manifest.Classes
	sum       [sha256.Size]byte // of all files of current
	among     map[string]*among // by path, of others
	lastError string            // last logged error of the path
}

// file is the content of one file. A broken file keeps its earlier classes.
type file struct {
	sum      [sha256.Size]byte // of the last content, valid or not
	classes  []*nodev1.RuntimeClass
	problems []manifest.Problem
}

// New returns a directory. It reads nothing yet. A missing path has no classes. others are paths of manifests and
// objects: what else they hold is passed over, and their problems are for its readers. Empty paths are left out.
func New(path string, log *slog.Logger, others ...string) *Directory {
	return &Directory{path: path, others: others, log: log, files: map[string]*file{},
		among: map[string]*among{}}
}

// Current returns the current classes, with the same pointer as before if none has changed. A file that cannot be read
// or is invalid keeps its earlier classes; its error is logged once.
func (f *Directory) Current() *manifest.Classes {
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
	more := f.readOthers(hash)
	if sum := [sha256.Size]byte(hash.Sum(nil)); f.current == nil || sum != f.sum {
		var twice []string
		f.sum = sum
		f.current, twice = manifest.NewClasses(all, more...)
		f.log.Info("classes read", "runtime classes", strings.Join(f.current.Names(), ","),
			"priority classes", strings.Join(f.current.Priorities(), ","))
		for _, name := range twice {
			f.log.Warn("duplicate class: the first one wins", "class", name)
		}
	}
	return f.current
}

// Problems returns the problems of the files from the last call of Current, as "path:line: field: text".
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

// list returns the files in lexical order; none if the path is missing.
func (f *Directory) list() ([]string, error) {
	if f.path == "" {
		return nil, nil
	}
	st, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !st.IsDir():
		return []string{f.path}, nil
	}
	var paths []string
	for e, err := range bounded.Entries(f.path) {
		if err != nil {
			return nil, err
		}
		path := filepath.Join(f.path, e.Name())
		if st, err := os.Stat(path); strings.HasPrefix(e.Name(), ".") || err != nil || !st.Mode().IsRegular() {
			continue
		}
		if paths = append(paths, path); len(paths) > maxFiles {
			return nil, fmt.Errorf("more than %d files; put several runtime classes into one file", maxFiles)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// read reads one file, if it has changed. After an error it keeps its earlier classes.
func (f *Directory) read(path string) error {
	data, err := bounded.ReadFile(path, maxFileBytes)
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

// keep adds the earlier classes that are missing now.
func keep(before, now []*nodev1.RuntimeClass) []*nodev1.RuntimeClass {
	for _, c := range before {
		if !slices.ContainsFunc(now, func(n *nodev1.RuntimeClass) bool { return n.Name == c.Name }) {
			now = append(now, c)
		}
	}
	return now
}

// logOnce logs an error of the path once; nil means none.
func (f *Directory) logOnce(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.lastError {
		f.log.Error("cannot read runtime classes; the known ones stay in use", "error", err)
	}
	f.lastError = text
}
