package tune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
	"github.com/journalet/journalet/runtime/install"
)

const (
	// dropIn is read late among others, since a later one wins.
	dropIn = "90-journalet.toml"
	// old is what a drop-in of ours is renamed to before another takes its place. No pattern of imports matches it.
	old = ".old"
	// mark is how a file begins that we have written.
	mark = "# Written by `journalet check --fix`"
)

// Content is the drop-in. It declares its own version, as each of containerd's files does: in a file of version 2 the
// setting of this name means something else (ADR 097).
const Content = mark + "; `journalet check --undo` removes it.\n" +
	`# containerd reads the statistics of each container once a second, for clients of CRI. journalet reads the cgroups
# itself. Who wants CPU rates from CRI, such as crictl stats, gets them since the request before.
version = 3

[plugins.'` + runtimePlugin + `']
  ` + periodKey + ` = "` + Period + `"
`

// Change is one change of containerd's configuration. Nothing has changed yet.
type Change struct {
	// Changes are the paths, Content what is written; "" if something is removed.
	Changes []install.Change `json:"changes"`
	Content string           `json:"content,omitempty"`
	// Restart is the command after which it is in effect; Note, why there is nothing to change.
	Restart string `json:"restart,omitempty"`
	Note    string `json:"note,omitempty"`

	containerd *Containerd
	before     map[string]any // what containerd reads before; nil if nothing is written
	steps      []step
}

// step is one change of a file, and what undoes it.
type step struct{ do, undo func() error }

// Done reports whether there is nothing to change.
func (c *Change) Done() bool { return len(c.steps) == 0 }

// Fix plans to write the drop-in. It fails if containerd cannot judge it or reads no drop-ins, and if something else is
// in its place.
func (c *Containerd) Fix(ctx context.Context) (*Change, error) {
	before, err := c.dump(ctx)
	if err != nil {
		return nil, fmt.Errorf("containerd's configuration cannot be read: %w", err)
	}
	now, err := fromDump(before)
	if err != nil {
		return nil, fmt.Errorf("containerd's configuration: %w", err)
	}
	change := &Change{Changes: []install.Change{}, containerd: c, before: before, Restart: c.Restart()}
	switch {
	case !now.Samples:
		change.Restart, change.Note = "", "this containerd samples no statistics: those before 2.3 do not"
		return change, nil
	case !now.Sampling():
		change.Note = fmt.Sprintf("the configuration has what --fix is to set (%s is %s), from containerd's next start on",
			periodKey, now.Period)
		return change, nil
	}
	places, err := c.places()
	if err != nil {
		return nil, err
	}
	path := places[0]
	for _, p := range places {
		if st, err := os.Stat(c.path(filepath.Dir(p))); err == nil && st.IsDir() {
			path = p
			break
		}
	}
	change.Content = Content
	return change, change.write(path)
}

// write plans to write the drop-in.
func (c *Change) write(path string) error {
	file := c.containerd.path(path)
	was, err := readOurs(file)
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.add(filepath.Dir(path), install.Create, "", func() error {
			return os.MkdirAll(dir, 0o755) //nolint:gosec // for everybody, as the directories of a system are
		}, func() error { return os.Remove(dir) })
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s is no directory", filepath.Dir(path))
	default:
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("cannot write into %s: %w; run it as root", filepath.Dir(path), err)
		}
	}
	if was != nil {
		c.add(path, install.SetAside, path+old, func() error { return os.Rename(file, file+old) },
			func() error { return os.Rename(file+old, file) })
	}
	c.add(path, install.Create, "", func() error {
		return durable.Stream(file, 0o644, os.Rename, func(w io.Writer) error {
			_, err := io.WriteString(w, c.Content)
			return err
		})
	}, func() error { return os.Remove(file) })
	return nil
}

// Undo plans to remove the drop-in, and to give what was set aside for it its name again. It needs no containerd that
// runs, since one may refuse to start.
func (c *Containerd) Undo() (*Change, error) {
	// One that has no imports any more, or that cannot be read, may have had the usual ones.
	places, err := c.places()
	usual := filepath.Join(filepath.Dir(c.Config), "conf.d", dropIn)
	if !slices.Contains(places, usual) {
		places = append(places, usual)
	}
	change := &Change{Changes: []install.Change{}, containerd: c, Restart: c.Restart()}
	for _, path := range places {
		file := c.path(path)
		was, err := readOurs(file)
		if err != nil {
			return nil, err
		}
		if was == nil {
			continue
		}
		change.add(path, install.Remove, "", func() error { return os.Remove(file) }, nil)
		if st, err := os.Lstat(file + old); err == nil && st.Mode().IsRegular() {
			change.add(path+old, install.SetAside, path, func() error { return os.Rename(file+old, file) }, nil)
		}
		return change, nil
	}
	if err != nil && !errors.Is(err, errNoImports) {
		return nil, err
	}
	change.Restart, change.Note = "", "there is nothing that --fix has written"
	return change, nil
}

// readOurs returns a file that we have written; nil if no file is there. It fails if something else is there.
func readOurs(file string) ([]byte, error) {
	st, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: remove it first", file)
	}
	data, err := bounded.ReadFile(file, maxConfigBytes)
	if err != nil {
		return nil, err
	}
	if !isOurs(data) {
		return nil, fmt.Errorf("%s is not of journalet: rename it first", file)
	}
	return data, nil
}

func isOurs(data []byte) bool { return bytes.HasPrefix(data, []byte(mark)) }

func (c *Change) add(path string, action install.Action, to string, do, undo func() error) {
	c.Changes = append(c.Changes, install.Change{Path: path, Action: action, To: to})
	c.steps = append(c.steps, step{do, undo})
}

// Apply carries the change out. What was written is removed again if containerd would not start with it, or if it
// changes anything but the setting.
func (c *Change) Apply(ctx context.Context) error {
	for i, s := range c.steps {
		if err := s.do(); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", c.Changes[i].Path, err), c.revert(i))
		}
	}
	if n := len(c.Changes); n > 0 {
		if err := durable.SyncDir(c.containerd.path(filepath.Dir(c.Changes[n-1].Path))); err != nil {
			return err
		}
	}
	if c.before == nil || c.Done() {
		return nil
	}
	if err := c.judge(ctx); err != nil {
		return errors.Join(fmt.Errorf("%w; nothing was changed", err), c.revert(len(c.steps)))
	}
	return nil
}

// revert undoes the first n steps.
func (c *Change) revert(n int) error {
	var errs []error
	for i := n - 1; i >= 0; i-- {
		if err := c.steps[i].undo(); err != nil {
			errs = append(errs, fmt.Errorf("%s stays: %w", c.Changes[i].Path, err))
		}
	}
	return errors.Join(errs...)
}

// judge has containerd read its configuration with the drop-in.
func (c *Change) judge(ctx context.Context) error {
	after, err := c.containerd.dump(ctx)
	if err != nil {
		return fmt.Errorf("containerd would not start with the drop-in: %w", err)
	}
	now, err := fromDump(after)
	if err != nil {
		return fmt.Errorf("containerd with the drop-in: %w", err)
	}
	if now.Sampling() {
		return fmt.Errorf("containerd samples every %s with the drop-in, too: a later file sets %s, or it reads no drop-ins",
			now.Period, periodKey)
	}
	for _, tree := range []map[string]any{c.before, after} {
		section, _ := at(tree, "plugins", runtimePlugin).(map[string]any)
		delete(section, periodKey)
	}
	if where, same := compare(c.before, after, nil); !same {
		return fmt.Errorf("with the drop-in containerd would change %s, too", where)
	}
	return nil
}

// compare returns the path of the first difference of two configurations. Values are not shown: some are secret.
func compare(a, b map[string]any, above []string) (where string, same bool) {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		x, inA := a[key]
		y, inB := b[key]
		path := append(slices.Clone(above), key)
		tableX, isX := x.(map[string]any)
		tableY, isY := y.(map[string]any)
		switch {
		case inA && inB && isX && isY:
			if where, same := compare(tableX, tableY, path); !same {
				return where, false
			}
		case !inA || !inB || !reflect.DeepEqual(x, y):
			return strings.Join(path, "."), false
		}
	}
	return "", true
}
