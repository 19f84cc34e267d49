package validate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// maxFiles bounds the files of one directory, as in the agent.
const maxFiles = 4096

// Stdin is the argument that stands for the standard input.
const Stdin = "-"

// Read reads a file, or the files of a directory as the agent lists it: hidden names, directories below it and what is
// no regular file are passed over. A file that cannot be read has an error; a path that does not exist is one.
func Read(path string) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []File{readFile(path)}, nil
	}
	var names []string
	for e, err := range bounded.Entries(path) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if names = append(names, e.Name()); len(names) > maxFiles {
			return nil, fmt.Errorf("%s has more than %d files, which is all that the agent reads; name files", path, maxFiles)
		}
	}
	slices.Sort(names)
	var files []File
	for _, name := range names {
		f := filepath.Join(path, name)
		if info, err := os.Stat(f); err == nil && !info.Mode().IsRegular() {
			continue
		}
		files = append(files, readFile(f))
	}
	return files, nil
}

func readFile(path string) File {
	// The decoder refuses one byte more than the limit.
	data, err := bounded.ReadFile(path, manifest.DefaultMaxBytes+1)
	return fileOf(path, data, err)
}

// ReadFrom reads one file from r, under this path.
func ReadFrom(r io.Reader, path string) File {
	data, err := bounded.ReadAll(r, manifest.DefaultMaxBytes+1)
	return fileOf(path, data, err)
}

func fileOf(path string, data []byte, err error) File {
	if errors.Is(err, bounded.ErrTooLarge) {
		err = nil
	}
	if pe := new(os.PathError); errors.As(err, &pe) {
		err = pe.Err // the finding has the path
	}
	return File{Path: path, Data: data, Err: err}
}
