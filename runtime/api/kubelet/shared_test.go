package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func pageRequest(t *testing.T) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/pods", http.NoBody)
}

// waiting returns how many readers wait for the next encoding.
func (s *shared) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		return 0
	}
	return len(s.next.readers)
}

func TestReadersAtOneTimeShareOneEncoding(t *testing.T) {
	s, begun, proceed := &shared{}, make(chan int, 10), make(chan struct{})
	encoded := 0
	encode := func(context.Context) (page, error) {
		encoded++
		begun <- encoded
		<-proceed
		return page{[]byte("encoding "), fmt.Append(nil, encoded)}, nil
	}
	var all sync.WaitGroup
	read := func(want string) {
		all.Go(func() {
			w := httptest.NewRecorder()
			if s.serve(w, pageRequest(t), encode); w.Body.String() != want {
				t.Errorf("got %q, want %q", w.Body, want)
			}
		})
	}
	read("encoding 1")
	<-begun
	for range 50 { // what they get is not older than their request
		read("encoding 2")
	}
	waitFor(t, "50 readers", func() bool { return s.waiting() == 50 })
	close(proceed)
	all.Wait()
	waitFor(t, "the end", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.runs })
	if encoded != 2 || len(s.held) != 0 {
		t.Errorf("encoded %d times, %d encodings are held", encoded, len(s.held))
	}
}

// slowWriter blocks until it has a deadline in the past.
type slowWriter struct {
	httptest.ResponseRecorder
	writes, cut chan struct{}
	once        sync.Once
}

func (w *slowWriter) Write([]byte) (int, error) {
	close(w.writes)
	<-w.cut
	return 0, os.ErrDeadlineExceeded
}

func (w *slowWriter) SetWriteDeadline(at time.Time) error {
	if at.Before(time.Now()) {
		w.once.Do(func() { close(w.cut) })
	}
	return nil
}

// holdPages has this many slow readers hold a page each, and returns which of them still hold it.
func holdPages(t *testing.T, p page, count int) (held []int) {
	s := &shared{}
	var all sync.WaitGroup
	var writers []*slowWriter
	for range count {
		w := &slowWriter{writes: make(chan struct{}), cut: make(chan struct{})}
		writers = append(writers, w)
		all.Go(func() {
			s.serve(w, pageRequest(t), func(context.Context) (page, error) { return p, nil })
		})
		<-w.writes
	}
	for i, w := range writers {
		select {
		case <-w.cut:
		default:
			held = append(held, i)
		}
	}
	for _, w := range writers {
		_ = w.SetWriteDeadline(time.Unix(1, 0))
	}
	all.Wait()
	if len(s.held) != 0 {
		t.Errorf("%d encodings are held without readers", len(s.held))
	}
	return held
}

func TestSlowReadersHoldFewBytes(t *testing.T) {
	for _, c := range []struct {
		bytes int // of a page
		want  []int
	}{
		{maxHeldBytes + 1, []int{4}},
		{maxHeldBytes * 2 / 3, []int{4}},
		{maxHeldBytes / 3, []int{2, 3, 4}},
		{maxHeldBytes / 5, []int{0, 1, 2, 3, 4}},
	} {
		p := page{make([]byte, c.bytes/2), make([]byte, c.bytes-c.bytes/2)}
		if held := holdPages(t, p, 5); !slices.Equal(held, c.want) {
			t.Errorf("of five readers of %d bytes %v hold them, want %v", c.bytes, held, c.want)
		}
	}
}

// A reader of a small page gets the whole of it, however many others read while the machine is busy.
func TestSlowReadersOfSmallPagesKeepThem(t *testing.T) {
	if held := holdPages(t, page{[]byte("page")}, 500); len(held) != 500 {
		t.Errorf("%d of 500 readers hold a page", len(held))
	}
}

func TestErrorOfASharedPageIsAnswered(t *testing.T) {
	w := httptest.NewRecorder()
	(&shared{}).serve(w, pageRequest(t), func(context.Context) (page, error) { return nil, errors.New("no pods") })
	if w.Code != http.StatusInternalServerError {
		t.Errorf("%d", w.Code)
	}
}

// A page that cannot be encoded is an error for those who wait, and the next one is encoded.
func TestSharedPageWhoseEncodingPanicsIsAnError(t *testing.T) {
	log := &bytes.Buffer{}
	s := &shared{log: slog.New(slog.NewTextHandler(log, nil))}
	w := httptest.NewRecorder()
	s.serve(w, pageRequest(t), func(context.Context) (page, error) { panic("s3cret") })
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String()+log.String(), "s3cret") ||
		!strings.Contains(log.String(), "stack=") {
		t.Errorf("%d %q\n%s", w.Code, w.Body, log)
	}
	w = httptest.NewRecorder()
	s.serve(w, pageRequest(t), func(context.Context) (page, error) { return page{[]byte("page")}, nil })
	if w.Body.String() != "page" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}
