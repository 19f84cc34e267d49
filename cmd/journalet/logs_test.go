package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/api/kubelet"
	"github.com/journalet/journalet/runtime/pod/logs"
	"github.com/journalet/journalet/test/must"
)

// logNode is a node of one pod with one log for all its containers.
type logNode struct {
	dir string
	pod corev1.Pod
}

func newLogNode(t testing.TB, text string) *logNode {
	t.Helper()
	n := &logNode{dir: t.TempDir(), pod: aPod("default/web", "app", "proxy")}
	for i := range n.pod.Status.ContainerStatuses {
		n.pod.Status.ContainerStatuses[i].ContainerID = "containerd://id"
	}
	n.pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	must.OK(t, os.MkdirAll(filepath.Join(n.dir, "web", "app"), 0o755))
	must.OK(t, os.WriteFile(n.path(), []byte(text), 0o600))
	return n
}

func (n *logNode) path() string { return filepath.Join(n.dir, "web", "app", "0.log") }

func (n *logNode) Pods(context.Context) (iter.Seq[*corev1.Pod], error) {
	return slices.Values([]*corev1.Pod{&n.pod}), nil
}

func (n *logNode) Pod(context.Context, string, string) (*corev1.Pod, error) { return &n.pod, nil }

func (n *logNode) ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (
	*runtimeapi.ContainerStatusResponse, error) {
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		LogPath: n.path(), State: runtimeapi.ContainerState_CONTAINER_EXITED,
	}}, nil
}

// serve serves the node's paths on a socket, and returns the flag that names it.
func (n *logNode) serve(t testing.TB) string {
	t.Helper()
	return "--socket=" + serveSocket(t, kubelet.New(kubelet.Options{
		Pods: n, Logs: &logs.Instances{Reader: logs.New(logs.Options{Dir: n.dir}), Runtime: n},
	}))
}

const twoLines = "2026-11-21T10:00:00Z stdout F one\n2026-11-21T10:00:01Z stderr F t\x1b[2Jwo\n"

func TestLogsPrintsWhatKubectlPrints(t *testing.T) {
	socket := newLogNode(t, twoLines).serve(t)
	for _, c := range []struct {
		args, out, errs string
		code            int
	}{
		{"web", "one\nt\x1b[2Jwo\n", "Defaulted container \"app\" out of: app, proxy, init (init)\n", 0},
		{"web app", "one\nt\x1b[2Jwo\n", "", 0},
		{"pod/web -c proxy --tail 1", "t\x1b[2Jwo\n", "", 0},
		{"web app --timestamps --limit-bytes 34", "2026-11-21T10:00:00.000000000Z one", "", 0},
		{"web app --since-time 2026-11-21T10:00:01Z", "t\x1b[2Jwo\n", "", 0},
		{"web app --prefix", "[pod/web/app] one\n[pod/web/app] t\x1b[2Jwo\n", "", 0},
		{"web --all-containers --ignore-errors --prefix --tail 1",
			"[pod/web/app] t\x1b[2Jwo\n[pod/web/proxy] t\x1b[2Jwo\n",
			"error: container \"init\" in pod \"web\" is not available\n", 0},
		{"web app -f", "one\nt\x1b[2Jwo\n", "", 0},
		{"web -f --all-containers --max-log-requests 2", "", "you are attempting to follow 3 log streams", 1},
		{"web init", "", `container "init" in pod "web" is not available`, 1},
		{"web app --previous", "", `previous terminated container "app" in pod "web" not found`, 1},
		{"web other", "", `container "other" not found in pod`, 6},
		{"web app -c app", "", "only one of -c or an inline [CONTAINER] arg is allowed", 2},
		{"web app --all-containers", "", "--all-containers=true should not be specified with container name app", 2},
		{"web --limit-bytes -1", "", "--limit-bytes must be greater than 0", 2},
		{"web --since -1s", "", "--since must be greater than 0", 2},
		{"web --since-time noon", "", "noon", 2},
		{"", "", "arg(s)", 2},
	} {
		code, out, errs := run(t.Context(), append([]string{"logs", socket}, strings.Fields(c.args)...)...)
		if out != c.out || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" || code != c.code {
			t.Errorf("%s: %q, %q, %d; want %q, %q, %d", c.args, out, errs, code, c.out, c.errs, c.code)
		}
	}
}

func TestLogsReportsWhatWasLeftOut(t *testing.T) {
	socket := newLogNode(t, twoLines+"broken\n").serve(t)
	code, out, errs := run(t.Context(), "logs", socket, "web", "app")
	if code != 0 || out != "one\nt\x1b[2Jwo\n" || !strings.Contains(errs, "1 records of the log are broken") {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// A container that has not started is waited for if its log is followed; the reason is printed once.
func TestFollowedContainerIsWaitedFor(t *testing.T) {
	n := newLogNode(t, twoLines)
	ready := n.serve(t)
	requests := 0
	h := kubelet.New(kubelet.Options{
		Pods: n, Logs: &logs.Instances{Reader: logs.New(logs.Options{Dir: n.dir}), Runtime: n},
	})
	waits := "--socket=" + serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; strings.HasPrefix(r.URL.Path, "/containerLogs") && requests < 4 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `container "app" in pod "web" is waiting to start: ContainerCreating`)
			return
		}
		h.ServeHTTP(w, r)
	}))
	code, out, errs := run(t.Context(), "logs", waits, "web", "app", "-f")
	if code != 0 || out != "one\nt\x1b[2Jwo\n" || strings.Count(errs, "ContainerCreating") != 1 {
		t.Errorf("%d %q %q", code, out, errs)
	}
	if code, _, errs := run(t.Context(), "logs", ready, "web", "init", "-f", "--pod-running-timeout", "0s"); code != 1 ||
		strings.Count(errs, "is not available") != 1 {
		t.Errorf("%d %q", code, errs)
	}
}

// Control characters are text on a terminal, also if a character comes in pieces.
func TestTerminalGetsControlCharactersOfLogsAsText(t *testing.T) {
	text := "a\x1b]0;title\x07\r\x9b2J é 漢 🙂 \u202e\xff\tb\n"
	want := plain.Quote(text, true)
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		q := &pieces{to: &screen{&out}}
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			_, err := q.Write(rest[:n])
			must.OK(t, err)
			rest = rest[n:]
		}
		if out.String() != want || strings.ContainsAny(want, "\x1b\r\x07") {
			t.Errorf("in pieces of %d bytes: %q, want %q", size, out.String(), want)
		}
	}
}

// Lines of several containers are printed whole, whatever pieces they come in.
func TestLinesOfSeveralContainersAreNotMixed(t *testing.T) {
	var out bytes.Buffer
	o := &logOutput{to: &out, lines: true}
	a, b := o.outputOf("[a] "), o.outputOf("")
	for _, piece := range []struct {
		output *containerOutput
		text   string
	}{{a, "one\ntw"}, {b, "b1"}, {a, "o\nlast"}, {b, "\nb2\n"}} {
		_, err := piece.output.Write([]byte(piece.text))
		must.OK(t, err)
	}
	must.OK(t, a.end())
	must.OK(t, b.end())
	if want := "[a] one\n[a] two\nb1\nb2\n[a] last"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	long := strings.Repeat("x", 3*maxLogLine)
	_, err := a.Write([]byte(long))
	must.OK(t, err)
	if len(a.kept) > maxLogLine {
		t.Errorf("%d bytes of a line are kept", len(a.kept))
	}
}

// BenchmarkLogs prints a log of 1 GiB, lines of 143 bytes with what the runtime adds, through the socket.
func BenchmarkLogs(b *testing.B) {
	n := newLogNode(b, "")
	block := strings.Repeat("2026-11-21T10:00:00.123456789Z stdout F "+strings.Repeat("x", 102)+"\n", 1<<20/143)
	f, err := os.Create(n.path())
	must.OK(b, err)
	for range 1024 {
		_, err := f.WriteString(block)
		must.OK(b, err)
	}
	must.OK(b, f.Close())
	socket := n.serve(b)
	b.SetBytes(int64(1024 * len(block)))
	for b.Loop() {
		code := execute(b.Context(), "journalet", []string{"logs", socket, "web", "app"}, io.Discard, io.Discard)
		if code != 0 {
			b.Fatal(code)
		}
	}
}
