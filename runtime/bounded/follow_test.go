package bounded

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestLinksAreFollowedWithinTheirDirectoryOnly(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "log")
	must.OK(t, os.MkdirAll(filepath.Join(dir, "pods/a"), 0o700))
	must.OK(t, os.MkdirAll(filepath.Join(dir, "containers"), 0o700))
	must.OK(t, os.MkdirAll(filepath.Join(top, "log-of-others"), 0o700))
	for _, name := range []string{"log/pods/a/0.log", "secret", "log-of-others/secret"} {
		must.OK(t, os.WriteFile(filepath.Join(top, name), []byte(name), 0o600))
	}
	must.OK(t, os.Symlink(dir, filepath.Join(top, "alias")))
	for name, target := range map[string]string{
		"containers/absolute": filepath.Join(dir, "pods/a/0.log"), "containers/relative": "../pods/a/0.log",
		"containers/alias": filepath.Join(top, "alias/pods/a/0.log"), "chain": "containers/absolute",
		"subdirectory": filepath.Join(dir, "pods"), "near": "pods",
		"out": filepath.Join(top, "secret"), "up": "../secret", "dots": filepath.Join(dir, "../secret"),
		"sibling": filepath.Join(top, "log-of-others/secret"), "shadow": "/etc/shadow", "top": "/", "self": dir,
		"loop": "loop", "ping": "pong", "pong": "ping", "nowhere": "none", "outside": top, "proc": "/proc/self/root",
		"second": "out", "deep": "pods/a/../../../secret",
	} {
		must.OK(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	root, err := os.OpenRoot(dir)
	must.OK(t, err)
	defer root.Close()
	for name, want := range map[string]string{
		"pods/a/0.log": "pods/a/0.log", "containers/absolute": "pods/a/0.log", "containers/relative": "pods/a/0.log",
		"containers/alias": "pods/a/0.log", "chain": "pods/a/0.log", "subdirectory": "pods", "near/a/0.log": "near/a/0.log",
	} {
		got, info, err := FollowIn(root, name, dir, filepath.Join(top, "alias"))
		if err != nil || got != want || info == nil {
			t.Errorf("%s leads to %q, want %q: %v", name, got, want, err)
			continue
		}
		if info.IsDir() {
			continue
		}
		f, err := OpenIn(root, got)
		must.OK(t, err)
		if data, err := io.ReadAll(f); err != nil || string(data) != "log/pods/a/0.log" {
			t.Errorf("%s has %q: %v", name, data, err)
		}
		must.OK(t, f.Close())
	}
	for _, name := range []string{"out", "up", "dots", "sibling", "shadow", "top", "self", "second", "deep", "outside",
		"proc", "../secret", "outside/secret", "top/etc/shadow", "proc/etc/shadow"} {
		if got, _, err := FollowIn(root, name, dir); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s leads to %q", name, got)
		}
	}
	for _, name := range []string{"loop", "ping"} {
		if got, _, err := FollowIn(root, name, dir); err == nil {
			t.Errorf("%s leads to %q", name, got)
		}
	}
	if _, _, err := FollowIn(root, "nowhere", dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link to nothing: %v", err)
	}
}

// Somebody who swaps files and links all the time never has another's file read.
func TestALinkThatIsSwappedLeadsNowhereElse(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "log")
	must.OK(t, os.Mkdir(dir, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "good"), []byte("good"), 0o600))
	root, err := os.OpenRoot(dir)
	must.OK(t, err)
	defer root.Close()
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			at, next := filepath.Join(dir, "log"), filepath.Join(dir, "next")
			target := []string{"good", filepath.Join(top, "secret"), "../secret"}[i%3]
			if os.Symlink(target, next) == nil {
				_ = os.Rename(next, at)
			}
			_ = os.Link(filepath.Join(dir, "good"), next)
			_ = os.Rename(next, at)
		}
	}()
	read := 0
	for range 5000 {
		name, _, err := FollowIn(root, "log", dir)
		if err != nil {
			continue
		}
		f, err := OpenIn(root, name)
		if err != nil {
			continue
		}
		data, _ := io.ReadAll(f)
		_ = f.Close()
		if read++; string(data) != "good" {
			t.Fatalf("read %q", data)
		}
	}
	close(done)
	<-over
	if read == 0 {
		t.Error("nothing was read")
	}
}
