package main

import (
	"context"
	"log/slog"

	"k8s.io/klog/v2"
)

// logLibraries gives the log of Kubernetes' libraries to a handler, at debug level: what they call an error is mostly a
// client that has left, and what matters reaches the callers as an error.
func logLibraries(h slog.Handler) {
	klog.SetSlogLogger(slog.New(atDebug{h}).With("lib", "kubernetes"))
}

// atDebug handles every record at debug level.
type atDebug struct{ slog.Handler }

// Enabled reports whether debug records are handled.
func (h atDebug) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle handles a record at debug level. klog hands over errors without asking whether they are handled.
func (h atDebug) Handle(ctx context.Context, r slog.Record) error {
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with more attributes.
func (h atDebug) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atDebug{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler for a group.
func (h atDebug) WithGroup(name string) slog.Handler { return atDebug{h.Handler.WithGroup(name)} }
