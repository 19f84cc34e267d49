package handback

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pod/volume"
)

// Leave ends what an agent has decided in a root directory: it moves the journal to own.HandedBack, in the place of one
// that was handed back before, and returns where it is. Nobody else may have the journal open. The next agent there
// begins as in any kubelet's place, with what the kubelet has decided until then. Leave may be repeated after an error
// or a crash: the journal is moved last, so a journal that is there means that something is still to be done.
func Leave(ctx context.Context, rootDir string) (journal string, err error) {
	if err := volume.Forget(rootDir); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(rootDir)
	if err != nil {
		return "", fmt.Errorf("end the journal: %w", err)
	}
	defer root.Close()
	// It counts records of this journal.
	if err := root.Remove(own.EventsCursor); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("remove the cursor of events: %w", err)
	}
	journal = filepath.Join(rootDir, own.HandedBack)
	if _, err := root.Lstat(own.Bus); errors.Is(err, fs.ErrNotExist) {
		return journal, nil
	}
	if err := bounded.RemoveTree(ctx, root, own.HandedBack); err != nil {
		return "", fmt.Errorf("remove the journal that was handed back before: %w", err)
	}
	if err := root.Rename(own.Bus, own.HandedBack); err != nil {
		return "", fmt.Errorf("move the journal away: %w", err)
	}
	return journal, durable.SyncDir(rootDir)
}
