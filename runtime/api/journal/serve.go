package journal

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
)

const (
	// maxAnswers, maxObservers and maxExports are how many requests of a kind are served at once. All who come through
	// the API server are one client here, so the bounds are for all of them.
	maxAnswers   = 16
	maxObservers = 8 // each takes two of the 64 connections of the bus's socket
	maxExports   = 1 // each reads the journal twice
	// maxExported is how many records an export reads at most, the newest: a few seconds of one core.
	maxExported = 500_000

	// answerTimeout bounds an answer, exportTimeout an export with a client that reads slowly.
	answerTimeout = 30 * time.Second
	exportTimeout = 5 * time.Minute
	// writeTimeout bounds how long a client may read nothing of what was written.
	writeTimeout = 30 * time.Second
	// retryAfter is what a client waits for that is one too many, in seconds. kubectl does so, ten times.
	retryAfter = 1
)

// Options configure a handler. All must be set.
type Options struct {
	// Connect connects to the agent's own bus. The handler closes the client's connection.
	Connect func(context.Context) (*query.Client, error)
	// History opens the journal to read it back.
	History func(context.Context) (history.Reader, error)
	// Version is the program's, Now its clock.
	Version string
	Now     func() time.Time
}

type server struct{ Options }

// New returns the handler of the paths /journal/why, /journal/events and /journal/export. It answers GET only; who may
// ask is up to the caller. Errors are a Status of the Kubernetes API.
func New(o Options) http.Handler {
	s := &server{o}
	mux := http.NewServeMux()
	mux.Handle("GET /journal/why", atOnce(maxAnswers, "queries", s.why))
	mux.Handle("GET /journal/events", atOnce(maxObservers, "observers of events", s.events))
	mux.Handle("GET /journal/export", atOnce(maxExports, "exports", s.export))
	return mux
}

// atOnce bounds how many requests are served at once.
func atOnce(most int, what string, f func(http.ResponseWriter, *http.Request) error) http.Handler {
	places := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
			fail(w, &query.Error{Code: http.StatusTooManyRequests, Message: "this node serves " + strconv.Itoa(most) + " " +
				what + " at once: try again"})
			return
		}
		sent := &writer{ResponseWriter: w, on: http.NewResponseController(w)}
		err := f(sent, r)
		switch {
		case err == nil:
		case sent.begun:
			panic(http.ErrAbortHandler) // the client sees that the response is cut
		default:
			fail(w, err)
		}
	})
}

// connect calls f with a client of the agent's bus.
func (s *server) connect(ctx context.Context, f func(*query.Client) error) error {
	c, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Conn().Close()
	return f(c)
}

// writer ends a response whose client does not read.
type writer struct {
	http.ResponseWriter
	on    *http.ResponseController
	begun bool
}

// Write implements io.Writer.
func (w *writer) Write(b []byte) (int, error) {
	w.begun = true
	_ = w.on.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
	return w.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
