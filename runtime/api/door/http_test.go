package door

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// A request that panics ends with its connection, and its stack is logged without the panic's value. A handler that
// cuts its response on purpose logs nothing.
func TestRequestThatPanicsEndsAlone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	log, served := &bytes.Buffer{}, make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		served <- HTTP(ctx, l, Options{
			Name: "port", Header: time.Minute, Idle: time.Minute, Conns: new(Conns),
			Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/defect":
					panic("s3cret")
				case "/cut":
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, "answer")
			}),
		})
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, http.NoBody)
		must.OK(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for _, path := range []string{"/cut", "/defect"} {
		if body, err := get(path); err == nil {
			t.Errorf("%s is answered with %q", path, body)
		}
	}
	if body, err := get("/"); err != nil || body != "answer" {
		t.Errorf("the next request is answered with %q, %v", body, err)
	}
	cancel()
	must.OK(t, <-served)
	if s := log.String(); strings.Count(s, "stack=") != 1 || strings.Contains(s, "s3cret") ||
		!strings.Contains(s, "TestRequestThatPanicsEndsAlone") {
		t.Errorf("the log is\n%s", s)
	}
}
