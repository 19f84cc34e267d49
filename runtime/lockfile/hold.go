package lockfile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pause is between two tries to take a lock that another process has.
	pause = time.Second
	// maxEvents has room for some hundred events; one is enough.
	maxEvents = 4 << 10
	// wanted is the sign of contention. The kubelet has a second one, the end of the file, which does not come while the
	// file is open here.
	wanted = unix.IN_OPEN
)

// Hold waits for the lock of a file and takes it; an empty path is no lock. With exit, the context that it returns also
// ends when a process opens the file. release gives the lock back, and must be called. An error means that
// ctx has ended, or that the file cannot be used.
func Hold(ctx context.Context, path string, exit bool, log *slog.Logger) (
	held context.Context, release func(), err error,
) {
	if path == "" {
		return ctx, func() {}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("--lock-file: %w; create its directory, or set another path", err)
	}
	if err := take(ctx, f, log); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	if !exit {
		return ctx, func() { _ = f.Close() }, nil
	}
	held, end, err := whileAlone(ctx, path, log)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return held, func() { end(); _ = f.Close() }, nil
}

// take waits for the lock.
func take(ctx context.Context, f *os.File, log *slog.Logger) error {
	for waits := false; ; waits = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("--lock-file: lock %s: %w; choose a file of a local file system", f.Name(), err)
		case !waits:
			log.Info("waiting for the lock that another process has", "file", f.Name())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("--lock-file: another process has the lock of %s: %w", f.Name(), context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// whileAlone returns a context that ends when ctx does, or a process wants the file.
func whileAlone(ctx context.Context, path string, log *slog.Logger) (context.Context, func(), error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, nil, fmt.Errorf("--exit-on-lock-contention: watch %s: %w; raise fs.inotify.max_user_instances, or "+
			"remove the flag", path, err)
	}
	events := os.NewFile(uintptr(fd), "inotify of "+path)
	if _, err := unix.InotifyAddWatch(fd, path, wanted); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--exit-on-lock-contention: watch %s: %w; raise "+
			"fs.inotify.max_user_watches, or remove the flag", path, err), events.Close())
	}
	held, end := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		if n, err := events.Read(make([]byte, maxEvents)); n > 0 && err == nil {
			log.Info("another process wants the lock: stopping", "file", path)
		} else if held.Err() == nil {
			log.Warn("cannot find out any more whether another process wants the lock: stopping", "file", path, "error", err)
		}
		end()
	})
	return held, func() { end(); _ = events.Close(); reader.Wait() }, nil
}
