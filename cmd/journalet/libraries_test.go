package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestErrorsOfLibrariesAreDebugRecords(t *testing.T) {
	t.Cleanup(func() { logLibraries(slog.DiscardHandler) })
	for level, want := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var out strings.Builder
		logLibraries(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		klog.ErrorS(errors.New("closed"), "Error on socket receive")
		klog.Flush()
		got := strings.Contains(out.String(), "level=DEBUG") && strings.Contains(out.String(), "lib=kubernetes")
		if got != want {
			t.Errorf("at %s the log is %q", level, out.String())
		}
	}
}

func TestBodiesOfRequestsAreNeverLogged(t *testing.T) {
	t.Cleanup(func() { logLibraries(slog.DiscardHandler) })
	var out strings.Builder
	logLibraries(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	log := klog.Background()
	log.V(4).Info("a library's record")
	for v := 5; v <= 10; v++ {
		log.V(v).Info("Response Body", "body", "secret")
	}
	klog.Flush()
	if got := out.String(); strings.Contains(got, "secret") || !strings.Contains(got, "a library's record") {
		t.Errorf("the log is %q", got)
	}
}
