//go:build integration

package integration

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

// idler is the only program of the test's images. It waits for SIGTERM.
const idler = `package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
}
`

// hub is an image registry in this process.
type hub struct {
	t    *testing.T
	host string

	mu       sync.Mutex
	requests map[string]int      // that were allowed, by method and path
	password string              // of its user, for reading; empty: everybody may
	held     chan struct{}       // nil: nothing is held
	volumes  map[string]struct{} // that images declare
}

func newHub(t *testing.T) *hub {
	h := &hub{t: t, requests: map[string]int{}}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		password, held := h.password, h.held
		h.mu.Unlock()
		if held != nil {
			<-held
		}
		if _, given, _ := r.BasicAuth(); given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			http.Error(w, "no: "+given, http.StatusUnauthorized)
			return
		}
		h.mu.Lock()
		h.requests[r.Method+" "+r.URL.Path]++
		h.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	h.host = strings.TrimPrefix(s.URL, "http://")
	return h
}

// image returns the full name of one of the hub's images. The end of the test removes it from the runtime.
func (h *hub) image(short string) string {
	full := h.host + "/" + short
	h.t.Cleanup(func() {
		ctx, cancel := node.Bounded()
		defer cancel()
		_, _ = setup.Runtime.Images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: full}})
	})
	return full
}

// hold holds all requests until release is called.
func (h *hub) hold() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := make(chan struct{})
	h.held = held
	release = sync.OnceFunc(func() { close(held) })
	h.t.Cleanup(release)
	return release
}

// push uploads an image of one layer. Its author is the hub: containerd removes an image with all its names, so that
// two tests whose images had one digest would remove each other's.
func (h *hub) push(full string, layer []byte) {
	h.t.Helper()
	repo, tag, _ := strings.Cut(strings.TrimPrefix(full, h.host+"/"), ":")
	config := mustBytes(json.Marshal(map[string]any{
		"os": "linux", "architecture": goruntime.GOARCH, "author": h.host, "config": map[string]any{
			"Entrypoint": []string{"/idler"}, "Volumes": h.volumes,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(layer)}},
	}))
	describe := func(kind string, b []byte) map[string]any {
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": digestOf(b), "size": len(b)}
	}
	index := mustBytes(json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": describe("config.v1+json", config), "layers": []any{describe("layer.v1.tar", layer)},
	}))
	for _, blob := range [][]byte{config, layer} {
		h.send(http.MethodPost, "/v2/"+repo+"/blobs/uploads/?digest="+digestOf(blob), "application/octet-stream", blob)
	}
	h.send(http.MethodPut, "/v2/"+repo+"/manifests/"+tag, "application/vnd.oci.image.manifest.v1+json", index)
}

func (h *hub) send(method, path, kind string, body []byte) {
	h.t.Helper()
	q, err := http.NewRequestWithContext(h.t.Context(), method, "http://"+h.host+path, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	q.Header.Set("Content-Type", kind)
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		h.t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusCreated {
		b, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
		h.t.Fatalf("%s %s: %s %s %v", method, path, r.Status, b, err)
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func mustBytes(b []byte, err error) []byte {
	if err != nil {
		panic(err) // maps of strings
	}
	return b
}

// manifestRequests counts the requests for an image's manifest by tag. It leaves out pods whose credentials are wrong:
// their pulls are tried again at any time.
func (h *hub) manifestRequests(short string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	repo, tag, _ := strings.Cut(short, ":")
	path := "/v2/" + repo + "/manifests/" + tag
	return h.requests["GET "+path] + h.requests["HEAD "+path]
}

// idlerLayer builds the one layer of an image that holds the idler only.
func idlerLayer(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "idler")
	writeFile(t, source, idler)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the idler: %v\n%s", err, out)
	}
	text := readFile(t, program)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Name: "idler", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func runs(image string, policy corev1.PullPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Image, c.ImagePullPolicy, c.Command = image, policy, nil
	}
}

func TestImagesArePulledByTheirPolicy(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	layer := idlerLayer(t)
	const shared, always, never = "shared:1", "always:1", "never:1"
	h.push(h.image(shared), layer)
	h.push(h.image(always), layer)
	a := newAgent(t)
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		a.put(newPod(n, "", runs(h.host+"/"+shared, corev1.PullIfNotPresent)))
	}
	release := h.hold() // a pod that requests the image after its pull has ended leads to another one
	a.start()
	node.Eventually(t, settle, "five requests of one image", func() error {
		if n := a.journal.count(named("image_pull_requested", shared)); n != 5 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	release()
	a.pods("five pods of one image", allReady(5))
	if n := a.journal.count(named("call_requested", "pull_image")); n != 1 {
		t.Errorf("%d pulls were requested for five pods, want 1", n)
	}
	requests := h.manifestRequests(shared)
	if requests == 0 || requests > 3 {
		t.Errorf("the registry had %d requests for the manifest", requests)
	}
	a.put(newPod("f", "", runs(h.host+"/"+shared, corev1.PullIfNotPresent)))
	a.pods("a sixth pod", allReady(6))
	if n := h.manifestRequests(shared); n != requests {
		t.Errorf("IfNotPresent sent requests for an image that is present: %d, then %d", requests, n)
	}
	for i, n := range []string{"g", "h"} {
		a.put(newPod(n, "", runs(h.host+"/"+always, corev1.PullAlways)))
		a.pods(n, allReady(7+i))
		if n := a.journal.count(named("call_requested", "pull_image", always)); n != i+1 {
			t.Errorf("%d pulls were requested after %d pods of the policy Always", n, i+1)
		}
	}
	a.put(newPod("never", "", runs(h.host+"/"+never, corev1.PullNever)))
	p := a.pod("never", "without its image", waiting("main", "ErrImageNeverPull"))
	if w := container(p, "main").State.Waiting; !strings.Contains(w.Message, never) {
		t.Errorf("it waits as %v", w)
	}
	if n := h.manifestRequests(never); n != 0 {
		t.Errorf("the policy Never sent %d requests to the registry", n)
	}
}

func TestMissingImageIsPulledOnceItExists(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	layer := idlerLayer(t)
	full := h.image("late:1")
	a := started(t, onePod("late", "", runs(full, corev1.PullIfNotPresent)))
	a.journal.wait(t, 0, settle, "ErrImagePull", named("pod_status_changed", "ErrImagePull"))
	p := a.pod("late", "backs off", waiting("main", "ImagePullBackOff"))
	if w := container(p, "main").State.Waiting; !strings.Contains(w.Message, "late:1") ||
		!strings.Contains(w.Message, "Back-off") {
		t.Errorf("it waits as %v", w)
	}
	h.push(full, layer)
	p = a.pods("the pod once its image exists", allReady(1))["late"]
	if n := container(p, "main").RestartCount; n != 0 {
		t.Errorf("it reports %d restarts", n)
	}
}
