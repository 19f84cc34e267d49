package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// libraries handles the log of Kubernetes' libraries. klog's logger is set once, because it is not safe to set beside
// one who logs.
var libraries struct {
	handler atomic.Pointer[slog.Handler]
	set     sync.Once
}

// logLibraries gives the log of Kubernetes' libraries to a handler, at debug level: what they call an error is mostly a
// client that has left, and what matters reaches the callers as an error.
func logLibraries(h slog.Handler) {
	libraries.handler.Store(&h)
	libraries.set.Do(func() { klog.SetSlogLogger(slog.New(atDebug{{Key: "lib", Value: slog.StringValue("kubernetes")}})) })
}

// atDebug hands every record on at debug level, with its attributes.
type atDebug []slog.Attr

// Enabled reports whether a record is handled: at debug level, records with a verbosity of up to 4. From 6 on client-go
// logs requests, and from 8 on the bodies of requests, with Secrets and tokens.
func (atDebug) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && (*libraries.handler.Load()).Enabled(ctx, slog.LevelDebug)
}

// Handle handles a record at debug level. klog hands over errors without asking whether they are handled.
func (a atDebug) Handle(ctx context.Context, r slog.Record) error {
	h := *libraries.handler.Load()
	if !h.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	r.Level = slog.LevelDebug
	r.AddAttrs(a...)
	return h.Handle(ctx, r)
}

// WithAttrs returns a handler with more attributes.
func (a atDebug) WithAttrs(attrs []slog.Attr) slog.Handler { return slices.Concat(a, attrs) }

// WithGroup returns the same handler: what belongs to which group matters to nobody at this level.
func (a atDebug) WithGroup(string) slog.Handler { return a }
