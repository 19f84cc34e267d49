package shutdown

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
)

// maxDropInBytes bounds the drop-in; the agent's has some 150.
const maxDropInBytes = 4 << 10

// mark is the beginning of the drop-in of the agent with a root directory.
func mark(root string) string {
	return fmt.Sprintf("# Written by journalet of %s: pods have so long to end at a shutdown (shutdownGracePeriod).\n",
		strings.ReplaceAll(root, "\n", " "))
}

// OwnDropIn returns the path of the drop-in that the agent with a root directory has written, "" without such a
// drop-in. An empty dir is ConfigDir.
func OwnDropIn(dir, root string) (string, error) {
	path := filepath.Join(cmp.Or(dir, ConfigDir), DropIn)
	text, err := bounded.ReadFile(path, maxDropInBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, bounded.ErrTooLarge), err == nil && !strings.HasPrefix(string(text), mark(root)):
		return "", nil // somebody else's
	case err != nil:
		return "", fmt.Errorf("read logind's drop-in: %w", err)
	}
	return path, nil
}

// Withdraw removes the drop-in that an earlier run of the agent has written, and has logind read its configuration
// again. It is for an agent that delays no shutdown.
func Withdraw(ctx context.Context, dial func(context.Context) (Logind, error), dir, root string) (bool, error) {
	path, err := OwnDropIn(dir, root)
	if path == "" || err != nil {
		return false, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, Reread(ctx, dial)
}

// Reread has logind read its configuration again.
func Reread(ctx context.Context, dial func(context.Context) (Logind, error)) error {
	l, err := dial(ctx)
	if err != nil {
		return err
	}
	return errors.Join(l.Reload(), l.Close())
}
