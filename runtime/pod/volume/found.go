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

// readAll reads a file of each pod that has it, by UID. Its error has the files that could not be read.
func readAll[T any](rootDir, file string, read func(*os.Root, string) (T, error)) (map[string]T, error) {
	found := map[string]T{}
	var unreadable []error
	more := 0
	pods := filepath.Join(rootDir, own.Pods)
	root, err := os.OpenRoot(pods)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the directories of pods: %w", err)
	}
	defer root.Close()
	for e, err := range bounded.EntriesIn(root, ".") {
		if err != nil {
			return found, errors.Join(append(unreadable, fmt.Errorf("read the directories of pods: %w", err))...)
		}
		has, err := read(root, filepath.Join(e.Name(), file))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && len(unreadable) == maxUnreadable:
			more++
		case err != nil:
			unreadable = append(unreadable, fmt.Errorf("%s: %w", filepath.Join(pods, e.Name(), file), err))
		default:
			found[e.Name()] = has
		}
	}
	if more > 0 {
		unreadable = append(unreadable, fmt.Errorf("and %d files more", more))
	}
	return found, errors.Join(unreadable...)
}
