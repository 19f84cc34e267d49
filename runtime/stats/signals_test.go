package stats

import (
	"context"
	"testing"
	"time"

	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/test/strict"
)

// A victim is chosen by figures that were measured after the last one has freed what it held.
func TestFileSystemIsMeasuredForEachSample(t *testing.T) {
	s := New(Options{RootDir: t.TempDir()})
	s.signalWait = time.Minute
	var measured uint64
	s.signals.node.measure = func(context.Context) (storage.FileSystem, error) {
		measured++
		return storage.FileSystem{Available: measured}, nil
	}
	for want := uint64(1); want <= 100; want++ {
		if got := s.level(t.Context(), &s.signals.node); got == nil || got.Available != want {
			t.Fatalf("sample %d has the figures %+v", want, got)
		}
	}
}

// A file system that hangs is unknown, and delays a sample no longer than signalWait.
func TestFileSystemThatHangsIsUnknown(t *testing.T) {
	s := New(Options{RootDir: t.TempDir()})
	release := make(chan struct{})
	defer close(release)
	s.signals.node.measure = func(context.Context) (storage.FileSystem, error) {
		<-release
		return storage.FileSystem{}, nil
	}
	begun := time.Now()
	if got := s.level(t.Context(), &s.signals.node); got != nil {
		t.Errorf("%+v", got)
	}
	strict.Within(t, "a file system that hangs", time.Since(begun), 10*signalWait)
}
