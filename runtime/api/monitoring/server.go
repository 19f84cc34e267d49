package monitoring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// DefaultAddress is the kubelet's healthz address.
	DefaultAddress = "127.0.0.1:10248"

	readTimeout  = 5 * time.Second
	idleTimeout  = 30 * time.Second // a scrape's interval, most often
	writeTimeout = 30 * time.Second
	// profileTimeout is writeTimeout with profiling on: a CPU profile takes as long as requested.
	profileTimeout = 5 * time.Minute
	maxHeaderBytes = 16 << 10
	// maxRequests bounds the requests served at once; the rest get 503 with Retry-After.
	maxRequests = 32
	// maxConnections bounds the open connections; the rest wait to be accepted. One that sends no request is closed after
	// readTimeout.
	maxConnections = 128
	// stopGrace bounds the wait for responses under way at the end.
	stopGrace = 2 * time.Second
)

// Options configure a Server.
type Options struct {
	// Address is host:port; "" means DefaultAddress.
	Address string
	// Flag is the flag that sets the address; errors name it.
	Flag string
	// Health are the checks of /healthz; /readyz runs Health and Ready. Either may be nil.
	Health, Ready *Checks
	// Metrics are served on /metrics; nil serves none.
	Metrics *Metrics
	// Profiling serves net/http/pprof on /debug/pprof/. The default is off.
	Profiling bool
	Log       *slog.Logger
}

// Server serves health and metrics over HTTP.
type Server struct {
	http *http.Server
	l    net.Listener
}

// Listen opens the port; Serve serves on it.
func Listen(o Options) (*Server, error) {
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if o.Flag == "" {
		o.Flag = "--healthz-port"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	l, err := net.Listen("tcp", o.Address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("health server address %s is in use, perhaps by a kubelet or another agent: "+
			"stop it, or choose another address with %s (0 disables the server)", o.Address, o.Flag)
	case err != nil:
		return nil, fmt.Errorf("health server cannot listen on %s: %w (choose another address with %s)", o.Address, err,
			o.Flag)
	}
	s := &Server{l: netutil.LimitListener(l, maxConnections)}
	s.http = &http.Server{
		Handler: bounded(handler(o)), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		WriteTimeout: writeTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	if o.Profiling {
		s.http.WriteTimeout = profileTimeout
	}
	return s, nil
}

// Addr returns the address that it listens on.
func (s *Server) Addr() string { return s.l.Addr().String() }

// Serve serves until ctx ends. An error means that the port was lost.
func (s *Server) Serve(ctx context.Context) error {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		if err := s.http.Shutdown(end); err != nil {
			s.http.Close()
		}
	})
	err := s.http.Serve(s.l)
	if !stop() {
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("health server on %s failed: %w", s.Addr(), err)
}

func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", checkHandler("healthz", o.Health))
	mux.HandleFunc("GET /readyz", checkHandler("readyz", o.Health, o.Ready))
	// Without checks: a restart would not cure what they find.
	mux.HandleFunc("GET /livez", checkHandler("livez"))
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics.handler())
	}
	if o.Profiling {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// checkHandler serves the results of checks: "ok" alone if all pass, without ?verbose.
func checkHandler(name string, lists ...*Checks) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		var bad []string
		b.WriteString("[+]ping ok\n")
		for _, list := range lists {
			for _, res := range list.Run() {
				if res.Err == nil {
					fmt.Fprintf(&b, "[+]%s ok\n", res.Name)
					continue
				}
				fmt.Fprintf(&b, "[-]%s failed: %s\n", res.Name, strings.Join(strings.Fields(res.Err.Error()), " "))
				bad = append(bad, res.Name)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case len(bad) > 0:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "%s%s check failed: %s\n", b.String(), name, strings.Join(bad, ", "))
		case r.URL.Query().Has("verbose"):
			fmt.Fprintf(w, "%s%s check passed\n", b.String(), name)
		default:
			fmt.Fprint(w, "ok")
		}
	}
}

// bounded serves at most maxRequests at once and rejects the rest.
func bounded(h http.Handler) http.Handler {
	slots := make(chan struct{}, maxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		}
	})
}
