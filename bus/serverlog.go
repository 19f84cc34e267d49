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
	// repeatAfter is how long the server's same words are not logged again: a full disk makes it say
	// the same at each attempt.
	repeatAfter = time.Minute
	maxRepeats  = 128
	// ownChoice begins the server's warning about maxPayload, which the size of manifests asks for.
	ownChoice = "Maximum payloads over"
)

// serverLog hands the server's words to slog. The server's notices are our debug: they tell of its
// own start and of streams, which the agent tells in its own words.
type serverLog struct {
	log   *slog.Logger
	fatal atomic.Pointer[string]
	// complaint is the server's last error: an acknowledgement often does not say what is the matter.
	complaint atomic.Pointer[string]

	mu   sync.Mutex
	said map[string]time.Time
}

func (l *serverLog) say(level slog.Level, format string, v []any) {
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
	if at, ok := l.said[text]; ok && now.Sub(at) < repeatAfter {
		return true
	}
	if l.said == nil || len(l.said) >= maxRepeats {
		l.said = make(map[string]time.Time)
	}
	l.said[text] = now
	return false
}

// Noticef and the others are what the server calls.
func (l *serverLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Debugf is not called unless asked for, which the bus does not.
func (l *serverLog) Debugf(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Tracef is not called unless asked for, which the bus does not.
func (l *serverLog) Tracef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }

// Warnf passes warnings on, but for the one about our own choice.
func (l *serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(format, ownChoice) {
		level = slog.LevelDebug
	}
	l.say(level, format, v)
}

// Errorf passes errors on and keeps the last one.
func (l *serverLog) Errorf(format string, v ...any) {
	s := fmt.Sprintf(format, v...)
	l.complaint.Store(&s)
	l.say(slog.LevelError, format, v)
}

// Fatalf keeps what ends the server, so that Open can tell it; the process goes on.
func (l *serverLog) Fatalf(format string, v ...any) {
	s := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &s)
	l.say(slog.LevelError, format, v)
}
