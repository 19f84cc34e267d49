package lockfile_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/runtime/lockfile"
	"github.com/journalet/journalet/test/must"
)

var quiet = slog.New(slog.DiscardHandler)

// logged is a log that reports when it has a line.
type logged struct {
	slog.Handler
	lines chan string
}

func (l logged) Enabled(context.Context, slog.Level) bool { return true }

func (l logged) Handle(_ context.Context, r slog.Record) error {
	l.lines <- r.Message
	return nil
}

func newLogged() (*slog.Logger, chan string) {
	l := logged{slog.DiscardHandler, make(chan string, 16)}
	return slog.New(l), l.lines
}

func TestLockIsWaitedForUntilItIsGivenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	_, release, err := lockfile.Hold(t.Context(), path, false, quiet)
	must.OK(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	log, lines := newLogged()
	ended := make(chan error, 1)
	go func() {
		_, _, err := lockfile.Hold(ctx, path, false, log)
		ended <- err
	}()
	<-lines
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was ended: %v", err)
	}

	go func() {
		_, second, err := lockfile.Hold(t.Context(), path, false, log)
		if err == nil {
			second()
		}
		ended <- err
	}()
	<-lines
	release()
	must.OK(t, <-ended)
}

func TestRunEndsWhenAnotherProcessWantsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	alone, release, err := lockfile.Hold(t.Context(), path, true, quiet)
	must.OK(t, err)
	if alone.Err() != nil {
		t.Fatal("the run ends at once")
	}
	f, err := os.Open(path)
	must.OK(t, err)
	<-alone.Done()
	release()
	must.OK(t, f.Close())
	// The process that opened the file can have the lock now.
	_, again, err := lockfile.Hold(t.Context(), path, true, quiet)
	must.OK(t, err)
	again()
}

func TestWithoutExitAnOpenedFileEndsNoRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, release, err := lockfile.Hold(t.Context(), path, false, quiet)
	must.OK(t, err)
	defer release()
	f, err := os.Open(path)
	must.OK(t, err)
	must.OK(t, f.Close())
	if held != t.Context() {
		t.Error("the run has an end of its own")
	}
	if same, release, err := lockfile.Hold(t.Context(), "", true, quiet); same != t.Context() || err != nil {
		t.Errorf("without a file: %v", err)
	} else {
		release()
	}
}

func TestLockFileThatCannotBeUsedNamesTheFlag(t *testing.T) {
	if _, _, err := lockfile.Hold(t.Context(), filepath.Join(t.TempDir(), "no", "lock"), false, quiet); err == nil {
		t.Error("a file in no directory is accepted")
	}
}
