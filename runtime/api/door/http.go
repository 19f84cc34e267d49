package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/journalet/journalet/runtime/defect"
)

const (
	// MaxHeaderBytes bounds a request's header: the URL of an exec holds its command.
	MaxHeaderBytes = 256 << 10
	// stopGrace bounds the wait for handlers at the end.
	stopGrace = 5 * time.Second
)

// Options configure HTTP. All are required.
type Options struct {
	// Name is the door in errors: "socket /run/x.sock".
	Name    string
	Handler http.Handler
	// ConnContext adds what the door knows of a connection to the contexts of its requests.
	ConnContext func(context.Context, net.Conn) context.Context
	// Header is how long a client may take to send the header of a request; Idle is how long a connection waits for its
	// next request.
	Header, Idle time.Duration
	// Conns are the open connections, which the door's listener adds.
	Conns *Conns
	Log   *slog.Logger
}

// serve serves a request. One that panics ends with its connection, and its stack is logged. net/http itself would log
// the panic's value, which may quote a Secret.
func (o *Options) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		switch p := recover(); p {
		case nil:
			return
		case http.ErrAbortHandler: // its handler ends it so on purpose
		default:
			o.Log.Error("a request failed", "door", o.Name, "method", r.Method, "error", defect.Message,
				"stack", string(debug.Stack()))
		}
		panic(http.ErrAbortHandler)
	}()
	o.Handler.ServeHTTP(w, r)
}

// HTTP serves requests of l until ctx ends, and closes l. Then it cancels the contexts of all requests and closes all
// connections, also connections that a handler has taken over. HTTP returns when the handlers have returned, or
// after 5 s with an error.
func HTTP(ctx context.Context, l net.Listener, o Options) error {
	var working sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			working.Add(1)
			defer working.Done()
			o.serve(w, r)
		}),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: o.ConnContext, ReadHeaderTimeout: o.Header, IdleTimeout: o.Idle, MaxHeaderBytes: MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	err := srv.Serve(l)
	srv.Close()
	l.Close()
	o.Conns.CloseAll()
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(stopGrace):
		return fmt.Errorf("%s: a request did not end within %s", o.Name, stopGrace)
	}
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%s: %w", o.Name, err)
}
