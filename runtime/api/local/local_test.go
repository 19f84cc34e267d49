package local

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// start serves h on a socket of a fresh directory until the test ends.
func start(t *testing.T, path string, h http.Handler) *Client {
	t.Helper()
	l, err := Listen(path, "")
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
	c := Dial(path)
	t.Cleanup(func() {
		cancel()
		must.OK(t, <-done)
		c.HTTP.CloseIdleConnections()
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	})
	return c
}

func get(t *testing.T, c *Client, path string) string {
	t.Helper()
	resp, err := c.HTTP.Get(BaseURL + path)
	must.OK(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return string(b)
}

func TestPeerIsTheProcessThatConnected(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("a-long-directory-", 10), SocketFile)
	must.OK(t, os.Mkdir(filepath.Dir(path), 0o700))
	c := start(t, path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := PeerOf(r.Context())
		_, _ = io.WriteString(w, p.String()+strconv.FormatBool(ok))
	}))
	comm, err := os.ReadFile("/proc/self/comm")
	must.OK(t, err)
	want := "(uid " + strconv.Itoa(os.Getuid()) + "), process " + strconv.Itoa(os.Getpid()) + " (" +
		strings.TrimSpace(string(comm)) + ")true"
	if got := get(t, c, "/"); !strings.HasPrefix(got, "user ") || !strings.HasSuffix(got, want) {
		t.Errorf("the peer is %q, want user NAME %s", got, want)
	}
}

func TestSocketAdmitsOnlyItsUserOrAGroup(t *testing.T) {
	for _, c := range []struct {
		group string
		mode  os.FileMode
	}{{"", 0o600}, {strconv.Itoa(os.Getgid()), 0o660}} {
		path := filepath.Join(t.TempDir(), SocketFile)
		l, err := Listen(path, c.group)
		must.OK(t, err)
		info, err := os.Lstat(path)
		must.OK(t, err)
		if info.Mode().Perm() != c.mode {
			t.Errorf("group %q: mode %v, want %v", c.group, info.Mode().Perm(), c.mode)
		}
		must.OK(t, l.Close())
	}
	if _, err := Listen(filepath.Join(t.TempDir(), SocketFile), "no-such-group"); err == nil ||
		!strings.Contains(err.Error(), "--api-socket-group") {
		t.Errorf("an unknown group: %v", err)
	}
}

func TestOnlyAStaleSocketIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, SocketFile)
	refused := func(why string) {
		t.Helper()
		l, err := Listen(path, "")
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want an error with %q", err, why)
		}
	}
	must.OK(t, os.WriteFile(path, nil, 0o600))
	refused("no socket")
	must.OK(t, os.Remove(path))

	other := filepath.Join(dir, "other.sock")
	l, err := net.Listen("unix", other)
	must.OK(t, err)
	must.OK(t, os.Symlink(other, path))
	refused("no socket")
	must.OK(t, os.Remove(path))
	must.OK(t, os.Rename(other, path))
	refused("another process listens")
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must.OK(t, l.Close())
	again, err := Listen(path, "")
	must.OK(t, err)
	must.OK(t, again.Close())

	must.OK(t, os.Chmod(dir, 0o777))
	refused("others may replace files")
}

// A socket that another agent has put in the place of ours stays.
func TestCloseRemovesOnlyItsOwnSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), SocketFile)
	l, err := Listen(path, "")
	must.OK(t, err)
	must.OK(t, os.Remove(path))
	must.OK(t, os.WriteFile(path, nil, 0o600))
	must.OK(t, l.Close())
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other file is gone: %v", err)
	}
}

func TestClientsThatStallAreDisconnectedAndFloodsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), SocketFile)
	c := start(t, path, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	for range maxConnections {
		conn, err := c.DialContext(t.Context(), "", "")
		must.OK(t, err)
		open = append(open, conn)
	}
	// The next one is disconnected at once: all places are taken.
	conn, err := c.DialContext(t.Context(), "", "")
	must.OK(t, err)
	defer conn.Close()
	must.OK(t, conn.SetReadDeadline(time.Now().Add(headerTimeout)))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection beyond the limit: read %d bytes, %v", n, err)
	}
	// Those that send no request lose their places by themselves.
	must.OK(t, open[0].SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := open[0].Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("a client that sends no request stays connected")
	}
	until := time.Now().Add(time.Minute)
	for {
		resp, err := c.HTTP.Get(BaseURL)
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(until) {
			t.Fatalf("no place is free after the flood: %v", err)
		}
	}
}

func TestOnlyRootAndTheUserItselfAreTrusted(t *testing.T) {
	for _, c := range []struct {
		uid, user int
		want      bool
	}{{0, 0, true}, {0, 1000, true}, {1000, 1000, true}, {1001, 1000, false}, {1000, 0, false}, {-1, 1000, false}} {
		if got := trusted(c.uid, c.user); got != c.want {
			t.Errorf("uid %d is trusted by %d: %t, want %t", c.uid, c.user, got, c.want)
		}
	}
}

// TestServerOfAnotherUserIsRefused needs root, to be another user for a moment; without root only the usual case is
// tried.
func TestServerOfAnotherUserIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), SocketFile)
	l, err := Listen(path, "")
	must.OK(t, err)
	defer l.Close()
	conn, err := Dial(path).DialContext(t.Context(), "", "")
	must.OK(t, err)
	defer conn.Close()
	if os.Geteuid() == 0 {
		must.OK(t, os.Chown(filepath.Dir(path), 4242, -1))
		if again, err := Listen(path+"2", ""); err == nil {
			again.Close()
			t.Error("a socket was created in the directory of another user")
		}
	}
}

func TestMissingAgentIsNamed(t *testing.T) {
	_, err := Dial(filepath.Join(t.TempDir(), SocketFile)).HTTP.Get(BaseURL)
	if err == nil || !strings.Contains(err.Error(), "journalet run") {
		t.Errorf("got %v, want what to do", err)
	}
}
