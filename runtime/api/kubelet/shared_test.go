package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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

func TestSlowReadersHoldFewEncodings(t *testing.T) {
	s := &shared{}
	var all sync.WaitGroup
	var writers []*slowWriter
	for range 3 * maxHeld {
		w := &slowWriter{writes: make(chan struct{}), cut: make(chan struct{})}
		writers = append(writers, w)
		all.Go(func() {
			s.serve(w, pageRequest(t), func(context.Context) (page, error) { return page{[]byte("page")}, nil })
		})
		<-w.writes
	}
	for i, w := range writers[:2*maxHeld] {
		select {
		case <-w.cut:
		default:
			t.Errorf("reader %d still holds its page", i)
		}
	}
	for i, w := range writers[2*maxHeld:] {
		select {
		case <-w.cut:
			t.Errorf("reader %d of the last ones has lost its page", i)
		default:
		}
	}
	for _, w := range writers {
		_ = w.SetWriteDeadline(time.Unix(1, 0))
	}
	all.Wait()
	if len(s.held) != 0 {
		t.Errorf("%d encodings are held without readers", len(s.held))
	}
}

func TestSlowReadersHoldFewBytes(t *testing.T) {
	s := &shared{}
	large := page{make([]byte, maxHeldBytes/3), make([]byte, maxHeldBytes/3)}
	var all sync.WaitGroup
	var writers []*slowWriter
	for range maxHeld {
		w := &slowWriter{writes: make(chan struct{}), cut: make(chan struct{})}
		writers = append(writers, w)
		all.Go(func() {
			s.serve(w, pageRequest(t), func(context.Context) (page, error) { return large, nil })
		})
		<-w.writes
	}
	held := 0
	for _, w := range writers {
		select {
		case <-w.cut:
		default:
			held++
		}
		_ = w.SetWriteDeadline(time.Unix(1, 0))
	}
	if held != 1 {
		t.Errorf("%d readers hold %d bytes each, want the last one alone", held, large.size())
	}
	all.Wait()
}

func TestErrorOfASharedPageIsAnswered(t *testing.T) {
	w := httptest.NewRecorder()
	(&shared{}).serve(w, pageRequest(t), func(context.Context) (page, error) { return nil, errors.New("no pods") })
	if w.Code != http.StatusInternalServerError {
		t.Errorf("%d", w.Code)
	}
}
