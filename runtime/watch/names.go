package watch

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
)

// names lists the files of a path with the stamp st: all files of a directory, or the one file that the path names. It
// lists no files if the path is gone. Names that begin with a dot are left out, and unknown names beyond MaxNames plus
// one: the extra name shows that there are too many.
func (w *Path) names(st Stamp, gone bool, known func(name string) bool) (map[string]bool, error) {
	switch {
	case gone:
		return nil, nil
	case st.IsRegular():
		return map[string]bool{filepath.Base(w.path): true}, nil
	}
	names, fresh := map[string]bool{}, 0
	for e, err := range bounded.Entries(w.path) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if !known(e.Name()) {
			if fresh++; fresh > MaxNames+1 {
				continue
			}
		}
		names[e.Name()] = true
	}
	return names, nil
}

// join returns the path of a name. ok is false if the path, with the stamp st, is one file with another name.
func (w *Path) join(st Stamp, name string) (path string, ok bool) {
	if st.IsRegular() {
		return w.path, name == filepath.Base(w.path)
	}
	return filepath.Join(w.path, name), true
}

// Cause returns an error's text without the path, for messages that have it already.
func Cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}
