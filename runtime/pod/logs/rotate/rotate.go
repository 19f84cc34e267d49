package rotate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/logs"
)

// maxNames bounds the names of rotated files that are in memory at once. A log has some ten; a container that plants
// more gets rid of them in several rotations.
const maxNames = 4096

// inspect rotates one log if it is due. It returns an error only if the runtime does not answer.
func (d *Driver) inspect(ctx context.Context, c *container) error {
	due, missing := d.due(c)
	if !due && c.cleaned {
		return nil
	}
	if c.base == "" {
		if err := d.locate(ctx, c); err != nil {
			return d.failed(ctx, c, err)
		}
		due, missing = d.due(c)
	}
	if !c.cleaned {
		c.setPacking()
		c.cleaned = true
	}
	switch {
	case missing:
		return d.failed(ctx, c, d.reopen(ctx, c))
	case !due:
		return nil
	}
	bytes, err := d.rotate(ctx, c)
	if err == nil {
		c.failed = false
		c.setPacking()
		d.report(ctx, c, bytes, nil)
	}
	return d.failed(ctx, c, err)
}

// due reports whether a log has reached its bound, and whether the log is missing. It costs one system call. What it
// finds through a planted link is found again, and refused, before anything is done.
func (d *Driver) due(c *container) (due, missing bool) {
	if c.base == "" {
		return false, false
	}
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(d.opts.Dir, c.below, c.base), &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, true
	case err != nil, st.Mode&unix.S_IFMT != unix.S_IFREG:
		return true, false // rotate finds out why
	}
	return st.Size >= d.opts.Policy.MaxBytes, false
}

// locate finds out where a container's log is, once.
func (d *Driver) locate(ctx context.Context, c *container) error {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	got, err := d.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.id})
	if err != nil {
		return err
	}
	path := got.GetStatus().GetLogPath()
	if path == "" {
		return fmt.Errorf("the runtime reports no log of container %s", c.name)
	}
	c.below, c.base, err = logs.Locate(d.opts.Dir, path)
	return err
}

// rotate rotates one log, and returns the size of the rotated file.
func (d *Driver) rotate(ctx context.Context, c *container) (int64, error) {
	dir, err := bounded.Hold(d.opts.Dir, c.below)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	if err := regular(dir, c.base); err != nil {
		return 0, err
	}
	steps, err := d.plan(dir, c, true)
	if err != nil {
		return 0, err
	}
	if err := remove(dir, steps.Excess); err != nil {
		return 0, err
	}
	if err := dir.Rename(c.base, steps.Rename); err != nil {
		return 0, err
	}
	if err := d.reopen(ctx, c); err != nil {
		// If the runtime has created the next file after all, the rotation stands.
		if back := dir.Rename(steps.Rename, c.base); !errors.Is(back, fs.ErrExist) {
			return 0, errors.Join(err, back)
		}
	}
	st, err := dir.Stat(steps.Rename)
	if err != nil {
		st.Size = 0 // a container may remove it
	}
	return st.Size, nil
}

// regular returns an error unless name is a regular file.
func regular(dir *bounded.Held, name string) error {
	st, err := dir.Stat(name)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = &fs.PathError{Op: "rotate", Path: filepath.Join(dir.Name(), name), Err: bounded.ErrNotRegular}
	}
	return err
}

// plan returns what is to be done with the files of a log.
func (d *Driver) plan(dir *bounded.Held, c *container, rotate bool) (Steps, error) {
	var names []string
	for e, err := range dir.Entries() {
		if err != nil {
			return Steps{}, err
		}
		_, _, ours := logs.Rotated(c.base, strings.TrimSuffix(e.Name(), temporary))
		if ours && e.Type().IsRegular() && len(names) < maxNames {
			names = append(names, e.Name())
		}
	}
	return Plan(c.base, names, rotate, d.opts.Now(), d.opts.Policy), nil
}

func remove(dir *bounded.Held, names []string) error {
	for _, name := range names {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// reopen makes the runtime create a log's file and write to it from now on.
func (d *Driver) reopen(ctx context.Context, c *container) error {
	call, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	_, err := d.runtime.ReopenContainerLog(call, &runtimeapi.ReopenContainerLogRequest{ContainerId: c.id})
	if err != nil {
		return fmt.Errorf("reopen the log: %w", err)
	}
	return nil
}

// failed reports a failure, once until a rotation succeeds. It returns an error if the runtime does not answer, which
// holds for all containers. What fails because the container has ended is no failure.
func (d *Driver) failed(ctx context.Context, c *container, err error) error {
	code := status.Code(err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !d.runs(c), errors.Is(err, fs.ErrNotExist), code == codes.NotFound, d.hasEnded(ctx, c):
		return nil
	case !c.failed:
		c.failed = true
		d.opts.Log.Warn("cannot rotate a container's log", "container", c.id, "error", err)
		d.report(ctx, c, 0, err)
	}
	if code == codes.Unavailable || code == codes.DeadlineExceeded {
		return err
	}
	return nil
}

// hasEnded reports whether the runtime shows that a container does not run any more.
func (d *Driver) hasEnded(ctx context.Context, c *container) bool {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	got, err := d.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.id})
	if err != nil {
		return status.Code(err) == codes.NotFound
	}
	return got.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING
}
