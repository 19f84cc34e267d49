package kubelet

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/journalet/journalet/runtime/defect"
)

// maxHeldBytes bounds the bytes of the encodings of one page that readers hold at once, but for the newest: a page may
// have a hundred megabytes, with 110 pods of the largest size. What is beyond it ends the responses of the oldest: slow
// readers keep little memory, and nobody from reading. How many encodings there are does not count: readers of small
// pages may be slow because the machine is busy.
const maxHeldBytes = 16 << 20

// page is the body of a response, in pieces: in one, a large page would take twice its bytes while it grows.
type page [][]byte

func (p page) size() (n int) {
	for _, piece := range p {
		n += len(piece)
	}
	return n
}

// shared serves a page that grows with the node: all who request it during one encoding get the next one, and there is
// no other meanwhile. So what a reader gets is never older than its request.
type shared struct {
	log *slog.Logger

	mu   sync.Mutex
	runs bool
	next *encoding   // begins when the one under way is done; nil: nobody waits
	held []*encoding // encodings whose bytes readers hold, the oldest first
}

// encoding is a page at one moment. data and err are set once done is closed.
type encoding struct {
	encode  func(context.Context) (page, error)
	readers map[*http.ResponseController]bool // guarded by shared.mu
	done    chan struct{}
	data    page
	err     error
}

// serve answers with what encode returns, to which it gives respondTimeout.
func (s *shared) serve(w http.ResponseWriter, r *http.Request, encode func(context.Context) (page, error)) {
	on := http.NewResponseController(w)
	e := s.join(on, encode)
	defer s.leave(e, on)
	select {
	case <-r.Context().Done():
		fail(w, http.StatusServiceUnavailable, "the page is not ready in time")
		return
	case <-e.done:
	}
	if e.err != nil {
		fail(w, http.StatusInternalServerError, e.err.Error())
		return
	}
	writeJSON(w, e.data...)
}

func (s *shared) join(on *http.ResponseController, encode func(context.Context) (page, error)) *encoding {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &encoding{encode: encode, readers: map[*http.ResponseController]bool{}, done: make(chan struct{})}
	}
	s.next.readers[on] = true
	if !s.runs {
		s.runs = true
		go s.run()
	}
	return s.next
}

func (s *shared) leave(e *encoding, on *http.ResponseController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(e.readers, on); len(e.readers) == 0 {
		s.held = slices.DeleteFunc(s.held, func(held *encoding) bool { return held == e })
	}
}

// run encodes while somebody waits.
func (s *shared) run() {
	for e := s.begin(); e != nil; e = s.begin() {
		ctx, cancel := context.WithTimeout(context.Background(), respondTimeout)
		e.data, e.err = s.encoded(ctx, e)
		cancel()
		s.mu.Lock()
		for bytes := s.heldBytes(); bytes > maxHeldBytes && s.held[0] != e; bytes = s.heldBytes() {
			s.cut()
		}
		s.mu.Unlock()
		close(e.done)
	}
}

// encoded encodes a page. An encoding that panics has failed: a page shows what tenants have sent (ADR 115).
func (s *shared) encoded(ctx context.Context, e *encoding) (data page, err error) {
	defer defect.Recover(func(stack string) {
		data, err = nil, errors.New(defect.Message)
		s.log.Error("a page cannot be encoded", "error", err, "stack", stack)
	})
	return e.encode(ctx)
}

// heldBytes returns how many bytes readers hold; s.mu is held.
func (s *shared) heldBytes() (n int) {
	for _, e := range s.held {
		n += e.data.size()
	}
	return n
}

// cut ends the responses of the oldest encoding; s.mu is held.
func (s *shared) cut() {
	for on := range s.held[0].readers {
		_ = on.SetWriteDeadline(time.Unix(1, 0)) // not every writer has one
	}
	s.held = s.held[1:]
}

// begin returns the next encoding, nil if nobody waits.
func (s *shared) begin() *encoding {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.next
	s.next, s.runs = nil, e != nil
	if e == nil || len(e.readers) == 0 {
		return e
	}
	s.held = append(s.held, e)
	return e
}
