package bus

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// repeatAfter is how long a repeated message of the server is not logged: a full disk repeats it at each attempt.
	repeatAfter = time.Minute
	maxRepeats  = 128
	// payloadWarning begins the server's warning about maxPayload, which the size of manifests requires.
	payloadWarning = "Maximum payloads over"
)

// serverLog passes the server's messages to slog. The server's notices become debug messages: they report its own
// start and its streams, which the agent logs itself.
type serverLog struct {
	log   *slog.Logger
	fatal atomic.Pointer[string]
	// lastError is the server's last error: an acknowledgement often lacks the cause.
	lastError atomic.Pointer[string]

	mu     sync.Mutex
	logged map[string]time.Time
}

func (l *serverLog) write(level slog.Level, format string, v []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	text := fmt.Sprintf(format, v...)
	if level >= slog.LevelWarn && l.repeats(text) {
		return
	}
	l.log.Log(context.Background(), level, text)
}

func (l *serverLog) repeats(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.logged[text]; ok && now.Sub(at) < repeatAfter {
		return true
	}
	if l.logged == nil || len(l.logged) >= maxRepeats {
		l.logged = make(map[string]time.Time)
	}
	l.logged[text] = now
	return false
}

// Noticef logs notices as debug messages.
func (l *serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

// Debugf is never called: the bus does not enable it.
func (l *serverLog) Debugf(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

// Tracef is never called: the bus does not enable it.
func (l *serverLog) Tracef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

// Warnf logs warnings, but payloadWarning as a debug message.
func (l *serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(format, payloadWarning) {
		level = slog.LevelDebug
	}
	l.write(level, format, v)
}

// Errorf logs errors and keeps the last one.
func (l *serverLog) Errorf(format string, v ...any) {
	s := fmt.Sprintf(format, v...)
	l.lastError.Store(&s)
	l.write(slog.LevelError, format, v)
}

// Fatalf keeps the first error that ends the server, for Prepare to return; the process keeps running.
func (l *serverLog) Fatalf(format string, v ...any) {
	s := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &s)
	l.write(slog.LevelError, format, v)
}
