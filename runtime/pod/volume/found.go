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

// eachFile calls do with the name of a file in the directory of each pod, as UID/file below pods. The pod may not have
// the file: fs.ErrNotExist is no error.
func eachFile(rootDir, file string, do func(pods *os.Root, name string) error) *unreadable {
	failed := &unreadable{}
	pods := filepath.Join(rootDir, own.Pods)
	root, err := os.OpenRoot(pods)
	if errors.Is(err, fs.ErrNotExist) {
		return failed
	}
	if err != nil {
		failed.add("the directories of pods", err)
		return failed
	}
	defer root.Close()
	for e, err := range bounded.EntriesIn(root, ".") {
		if err != nil {
			failed.add("the directories of pods", err)
			break
		}
		name := filepath.Join(e.Name(), file)
		if err := do(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed.add(filepath.Join(pods, name), err)
		}
	}
	return failed
}
