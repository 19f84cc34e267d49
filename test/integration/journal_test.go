//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
)

// journal holds the events that an observer has received of an agent's journal, from its first record and over
// restarts.
type journal struct {
	mu      sync.Mutex
	events  []messages.Flat
	changed chan struct{} // closed and replaced with each event
	err     error
}

// follow keeps a journal up to date until ctx ends.
func follow(ctx context.Context, c *query.Client) *journal {
	j := &journal{changed: make(chan struct{})}
	go func() {
		err := c.Watch(ctx, query.WatchRequest{All: true, Follow: true}, func(f messages.Flat) error {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.events = append(j.events, f)
			close(j.changed)
			j.changed = make(chan struct{})
			return nil
		})
		j.mu.Lock()
		defer j.mu.Unlock()
		j.err = err
	}()
	return j
}

// seen returns the events so far, and a channel that closes with the next one.
func (j *journal) seen() ([]messages.Flat, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.events, j.changed
}

// failed returns why the observer has ended.
func (j *journal) failed() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// last returns the number of the newest record received.
func (j *journal) last() uint64 {
	events, _ := j.seen()
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}

// epoch returns the number of the newest run of the agent. Records of a run that has ended may be received later.
func (j *journal) epoch() uint64 {
	events, _ := j.seen()
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Epoch
}

// reaches waits until every event up to a record was received.
func (j *journal) reaches(t *testing.T, last uint64) {
	t.Helper()
	deadline := time.After(settle)
	for {
		events, changed := j.seen()
		if n := len(events); n > 0 {
			// A record's events are received one by one.
			if f := events[n-1]; f.Seq > last || f.Seq == last && f.Index+1 == f.Of {
				return
			}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the observer has received record %d of %d only, within %s: %v", j.last(), last, settle, j.failed())
		}
	}
}

// wait returns the first event that fits, after a record.
func (j *journal) wait(
	t *testing.T, after uint64, within time.Duration, what string, fits func(messages.Flat) bool,
) messages.Flat {
	t.Helper()
	deadline := time.After(within)
	checked := 0
	for {
		events, changed := j.seen()
		for ; checked < len(events); checked++ {
			if f := events[checked]; f.Seq > after && fits(f) {
				return f
			}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("not in the journal within %s: %s (the observer's error: %v)", within, what, j.failed())
		}
	}
}

// count counts the events that fit.
func (j *journal) count(fits func(messages.Flat) bool) int {
	events, _ := j.seen()
	n := 0
	for _, f := range events {
		if fits(f) {
			n++
		}
	}
	return n
}

// tail returns the newest events, one line each.
func (j *journal) tail(n int) string {
	events, _ := j.seen()
	var b strings.Builder
	for _, f := range events[max(0, len(events)-n):] {
		data := string(f.Data)
		if len(data) > 400 {
			data = data[:400] + "..."
		}
		fmt.Fprintf(&b, "  #%d %s %s %s <-%d %s\n", f.Seq, f.Time, f.Author, f.Event, f.Cause, data)
	}
	return b.String()
}

// event decodes the event in f.
func event(t *testing.T, f messages.Flat) *journaletv1.Event {
	t.Helper()
	e, err := history.Event(&f)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// named matches events of this name that have each part in their data or author.
func named(name string, parts ...string) func(messages.Flat) bool {
	return func(f messages.Flat) bool {
		if f.Event != name {
			return false
		}
		for _, p := range parts {
			if !strings.Contains(string(f.Data), p) && !strings.Contains(f.Author, p) {
				return false
			}
		}
		return true
	}
}

// all returns the events that fit.
func (j *journal) all(fits func(messages.Flat) bool) (out []messages.Flat) {
	events, _ := j.seen()
	for _, f := range events {
		if fits(f) {
			out = append(out, f)
		}
	}
	return out
}
