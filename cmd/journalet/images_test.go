package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// simulatedNode runs an agent on a simulated runtime with one pod, and returns its root directory once the pod runs.
func simulatedNode(t *testing.T, manifest string) string {
	t.Helper()
	return simulatedNodeAt(t, "sim://", manifest, 1)
}

// simulatedNodeAt is simulatedNode for several pods and an endpoint of the simulation.
func simulatedNodeAt(t *testing.T, endpoint, manifest string, pods int) string {
	t.Helper()
	root, dir := filepath.Join(t.TempDir(), "root"), t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(manifest), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, "journalet", []string{"run", "--root-dir", root, "--static-pod-path", dir,
			"--hostname-override", "node-1", "--container-runtime-endpoint", endpoint, "--healthz-port", "0",
		}, io.Discard, io.Discard)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("the agent ended with %d", code)
		}
	})
	deadline := time.Now().Add(3 * time.Minute)
	for ; ; <-time.After(20 * time.Millisecond) {
		_, out, errs := run(t.Context(), "pods", "--root-dir", root)
		if strings.Count(out, "Running") == pods {
			return root
		}
		if time.Now().After(deadline) {
			t.Fatalf("the pod does not run:\n%s%s", out, errs)
		}
	}
}

func TestImagesArePulledListedAndRemoved(t *testing.T) {
	root := simulatedNode(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"+
		"spec: {containers: [{name: main, image: \"nginx:1\"}]}\n")
	for _, c := range []struct {
		args string
		code int
		want string // each word group between | is in the output
	}{
		{"pull redis:7 busybox redis:7", exitOK, "pulled redis:7 (|pulled busybox ("},
		{"pull a:b:c", exitError, "cannot pull a:b:c: couldn't parse image name"},
		{"pull", exitUsage, "requires at least 1 arg"},
		{"images", exitOK, "docker.io/library/nginx:1|in use|default/web-node-1|library/redis:7|cannot be measured"},
		{"images -o wide", exitOK, "default/web-node-1 (main)|OTHER NAMES|docker.io/library/redis@sha256:"},
		{"images -o json", exitOK, `"pod": "web-node-1"`},
		{"images rm nginx:1", exitError, "nginx:1 stays: in use by container main of pod default/web-node-1"},
		{"images rm redis:7 none:1", exitNotFound, `image "none:1" is not on the node`},
		{"images rm redis:7 docker.io/library/redis:7", exitOK, "removed docker.io/library/redis:7 ("},
		{"images rm redis:7", exitNotFound, "is not on the node"},
		{"images rm", exitUsage, "want names of images, or --unused"},
		{"images rm --unused", exitUsage, "--unused needs --yes"},
		{"images rm --unused --yes", exitOK, "removed docker.io/library/busybox:latest"},
		{"images rm --unused --yes", exitOK, "No image is unused."},
	} {
		code, out, errs := run(t.Context(), append(strings.Fields(c.args), "--root-dir", root)...)
		for _, want := range strings.Split(c.want, "|") {
			if code != c.code || !strings.Contains(out+errs, want) {
				t.Errorf("%s: exit code %d, want %d and %q in\n%s%s", c.args, code, c.code, want, out, errs)
			}
		}
	}
}

func TestBarsMoveAndFitTheScreen(t *testing.T) {
	var seen []string
	for n := range 40 {
		b := bar(time.Duration(n) * redrawPause)
		if len(b) != barWidth+2 || strings.Count(b, "=") != barBlock {
			t.Fatalf("%q", b)
		}
		seen = append(seen, b)
	}
	if seen[0] != "[====                ]" || seen[16] != "[                ====]" || seen[32] != seen[0] {
		t.Errorf("%q", seen)
	}
	var b strings.Builder
	s := &screen{&b}
	if n := s.redraw(0, []string{"one\x1b[2J", strings.Repeat("x", 500)}); n != 2 {
		t.Fatalf("%d lines", n)
	}
	s.redraw(2, nil)
	want := "one\\u001b[2J\n" + strings.Repeat("x", 79) + "\n\x1b[2A\r\x1b[J"
	if b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
}
