package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

// Some decisions are in a pod's directory, too, where they outlive the journal (ADR 042, ADR 072).

// maxUnreadable bounds the files that an error names.
const maxUnreadable = 16

// unreadable are the files that count as if they were not there, and why.
type unreadable struct {
	errs []error
	more int
}

func (u *unreadable) add(path string, err error) {
	if len(u.errs) == maxUnreadable {
		u.more++
		return
	}
	u.errs = append(u.errs, fmt.Errorf("%s: %w", path, err))
}

func (u *unreadable) err() error {
	errs := u.errs
	if u.more > 0 {
		errs = append(errs[:len(errs):len(errs)], fmt.Errorf("and %d files more", u.more))
	}
	return errors.Join(errs...)
}

// readAll reads a file of each pod that has it, by UID.
func readAll[T any](rootDir, file string, read func(*os.Root, string) (T, error)) (map[string]T, *unreadable) {
	found, failed := map[string]T{}, &unreadable{}
	pods := filepath.Join(rootDir, own.Pods)
	root, err := os.OpenRoot(pods)
	if errors.Is(err, fs.ErrNotExist) {
		return found, failed
	}
	if err != nil {
		failed.add("the directories of pods", err)
		return found, failed
	}
	defer root.Close()
	for e, err := range bounded.EntriesIn(root, ".") {
		if err != nil {
			failed.add("the directories of pods", err)
			break
		}
		has, err := read(root, filepath.Join(e.Name(), file))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			failed.add(filepath.Join(pods, e.Name(), file), err)
		default:
			found[e.Name()] = has
		}
	}
	return found, failed
}

// shares keep a value of each pod, within a bound of all together. Beyond it the largest goes, again and again: a pod
// that has much never keeps out one that has little.
type shares[T any] struct {
	most  int // bytes
	bytes int
	kept  map[string]T   // by UID
	sizes map[string]int // bytes, by UID
}

// add adds a pod's value, and returns the UIDs of the pods whose values are dropped for it, maybe its own.
func (s *shares[T]) add(uid string, value T, size int) (dropped []string) {
	s.kept[uid], s.sizes[uid] = value, size
	for s.bytes += size; s.bytes > s.most; {
		largest := uid
		for other, size := range s.sizes {
			if size > s.sizes[largest] || size == s.sizes[largest] && other > largest {
				largest = other
			}
		}
		s.bytes -= s.sizes[largest]
		delete(s.kept, largest)
		delete(s.sizes, largest)
		dropped = append(dropped, largest)
	}
	return dropped
}
