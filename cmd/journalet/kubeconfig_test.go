package main

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// An unusable kubeconfig ends the start: the error names the file and what to change.
func TestUnusableKubeconfigEndsTheStart(t *testing.T) {
	with := func(user string) string { return fakeapi.Kubeconfig("https://127.0.0.1:1", user) }
	for what, c := range map[string]struct{ text, want string }{
		"missing":           {"", "does not exist; create it"},
		"broken":            {"a: [" + secret("broken"), "is not a valid Config of v1"},
		"another kind":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "not a valid Config of v1"},
		"empty":             {"apiVersion: v1\nkind: Config\n", "set current-context"},
		"no server":         {strings.Replace(with("{token: t}"), "https://127.0.0.1:1", "", 1), "fix its current context"},
		"a bad server":      {strings.Replace(with("{token: t}"), "https://127.0.0.1:1", "http://[", 1), "kubeconfig"},
		"a directory":       {"directory", "kubeconfig"},
		"larger than 1 MiB": {strings.Repeat("#", 1<<20+1), "kubeconfig"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "kubelet.conf")
		switch c.text {
		case "":
		case "directory":
			must.OK(t, os.Mkdir(path, 0o700))
		default:
			must.OK(t, os.WriteFile(path, []byte(c.text), 0o600))
		}
		began := time.Now()
		code, out, errs := run(t.Context(), "run", "--root-dir", filepath.Join(dir, "root"), "--static-pod-path", dir,
			"--container-runtime-endpoint", "sim://", "--hostname-override", "n1", "--healthz-port", "0", "--kubeconfig", path,
			"--address", "127.0.0.1", "--port", fmt.Sprint(node.Port(t)))
		text := out + errs
		if code != exitError || !strings.Contains(text, c.want) || strings.Contains(text, canary) {
			t.Errorf("%s: exit code %d after %s, want 1 and %q:\n%s", what, code, time.Since(began), c.want, text)
		}
		if _, err := os.Stat(filepath.Join(dir, "root", "bus", "HEAD")); err == nil {
			t.Errorf("%s: the start has written a journal", what)
		}
	}
}

// An API server that refuses this node ends nothing: static pods run, and the log, the journal and /readyz say why.
func TestNodeThatIsRefusedRunsAndReportsWhy(t *testing.T) {
	hour := time.Hour
	for _, c := range []struct {
		what, subject string
		from, until   time.Duration
		code          int
		want          string
	}{
		{"another node's", "another", -hour, hour, http.StatusForbidden,
			"it is of another, this node is n1; set --hostname-override"},
		{"expired", "n1", -2 * hour, -hour, http.StatusUnauthorized,
			"renew it, or join the node again with --bootstrap-kubeconfig"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			server, dir, port := fakeapi.New(), t.TempDir(), node.Port(t)
			server.Faults = func(fakeapi.APIRequest) *fakeapi.Fault {
				return &fakeapi.Fault{Code: c.code, Reason: http.StatusText(c.code), Message: "no"}
			}
			secured := httptest.NewTLSServer(server)
			defer secured.Close()
			cert, key := authority.Write(t, dir, authority.New(t).Sign(t, &x509.Certificate{
				Subject:   pkix.Name{CommonName: "system:node:" + c.subject, Organization: []string{"system:nodes"}},
				NotBefore: time.Now().Add(c.from), NotAfter: time.Now().Add(c.until),
			}))
			kubeconfig, pods := filepath.Join(dir, "kubelet.conf"), filepath.Join(dir, "pods")
			user := "{client-certificate: " + cert + ", client-key: " + key + "}"
			text := strings.Replace(fakeapi.Kubeconfig(secured.URL, user), "{server:",
				"{insecure-skip-tls-verify: true, server:", 1)
			must.OK(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
			must.OK(t, os.Mkdir(pods, 0o700))
			must.OK(t, os.WriteFile(filepath.Join(pods, "web.yaml"), []byte("apiVersion: v1\nkind: Pod\n"+
				"metadata: {name: web}\nspec: {containers: [{name: main, image: i}]}\n"), 0o600))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			log, ended := &lockedBuffer{}, make(chan int, 1)
			go func() {
				ended <- execute(ctx, "journalet", []string{"run", "--root-dir", filepath.Join(dir, "root"),
					"--static-pod-path", pods, "--container-runtime-endpoint", "sim://", "--hostname-override", "n1",
					"--healthz-port", fmt.Sprint(port), "--kubeconfig", kubeconfig, "--enable-server=false"}, log, log)
			}()
			ready := ""
			for end := time.Now().Add(time.Minute); !strings.Contains(ready, c.want); <-time.After(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("/readyz has no %q:\n%s\nthe log:\n%s", c.want, ready, log)
				}
				ready = page(fmt.Sprintf("http://127.0.0.1:%d/readyz?verbose", port))
			}
			if health := page(fmt.Sprintf("http://127.0.0.1:%d/healthz", port)); health != "ok" {
				t.Errorf("/healthz has %q, want ok: a restart of the agent helps nobody", health)
			}
			stop()
			if code := <-ended; code != exitOK {
				t.Errorf("the agent ended with %d", code)
			}
			_, journal, errs := run(t.Context(), "observe", "--no-follow", "--from", "1", "--journal",
				filepath.Join(dir, "root"))
			for place, text := range map[string]string{"the log": log.String(), "the journal": journal + errs} {
				if !strings.Contains(text, "it refuses this node: "+fmt.Sprint(c.code)) || !strings.Contains(text, c.want) {
					t.Errorf("%s has no %q:\n%s", place, c.want, text)
				}
			}
			if !strings.Contains(journal, "status: Running, Ready") {
				t.Errorf("the static pod does not run:\n%s", journal)
			}
			if n := len(server.Requests("")); n > 100 {
				t.Errorf("%d requests to an API server that refuses all", n)
			}
		})
	}
}

// page returns what a server answers, empty if it does not.
func page(url string) string {
	resp, err := http.Get(url) //nolint:noctx // of this process
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}
