package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/journal"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/test/must"
)

const (
	// kubectlEnv has the test binary be a kubectl whose API server's node node-1 is this URL.
	kubectlEnv = "JOURNALET_TEST_KUBECTL"
	// kubectlArgsEnv is a file to which it appends its command lines.
	kubectlArgsEnv = "JOURNALET_TEST_KUBECTL_ARGS"
)

// fakeKubectl does what kubectl does for the plugin, and returns its exit code.
func fakeKubectl(server string, args []string) int {
	if f, err := os.OpenFile(os.Getenv(kubectlArgsEnv), os.O_APPEND|os.O_WRONLY, 0); err == nil {
		fmt.Fprintln(f, strings.Join(args, " "))
		_ = f.Close()
	}
	refuse := func(reason, text string) int {
		fmt.Fprintf(os.Stderr, "Error from server (%s): %s\n", reason, text)
		return 1
	}
	for strings.HasPrefix(args[0], "--") {
		args = args[1:]
	}
	if args[0] == "logs" {
		fmt.Println("logs with", args[1:])
		return 0
	}
	if args[1] == "pod" {
		switch args[slices.Index(args, "--")+1] {
		case "web":
			fmt.Print("shop/web uid-1 node-1")
		case "pending":
			fmt.Print("shop/pending uid-2 ")
		default:
			return refuse("NotFound", `pods "gone" not found`)
		}
		return 0
	}
	path, ours := strings.CutPrefix(args[2], "/api/v1/nodes/node-1/proxy")
	if !ours {
		return refuse("NotFound", "the server could not find the requested resource")
	}
	res, err := http.Get(server + path) //nolint:noctx // the test's own server
	if err != nil {
		fmt.Fprintln(os.Stderr, "The connection to the server was refused")
		return 1
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		var status metav1.Status
		_ = json.NewDecoder(res.Body).Decode(&status)
		return refuse(string(status.Reason), status.Message)
	}
	if _, err := io.Copy(os.Stdout, res.Body); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// pluginNode is a node whose agent recorded a pod that failed (failingRoot), behind an API server.
type pluginNode struct {
	bus  *bus.Bus
	args string // the file with kubectl's command lines
	// cut is how many streams of events are cut before the rest goes through.
	cut atomic.Int32
}

func newPluginNode(t *testing.T) *pluginNode {
	t.Helper()
	root := failingRoot(t, "Error")
	n := &pluginNode{bus: openBus(t, root, "node-1"), args: filepath.Join(t.TempDir(), "args")}
	t.Cleanup(func() { _ = n.bus.Close(context.Background()) })
	read := func(ctx context.Context) (history.Reader, error) { return open.Path(ctx, root) }
	serveQueries(t, n.bus, query.Options{History: read})
	h := journal.New(journal.Options{
		Connect: func(ctx context.Context) (*query.Client, error) { return query.Dial(ctx, filepath.Join(root, busDir)) },
		History: read, Version: "1.0.0", Now: func() time.Time { return now },
	})
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") && n.cut.Add(-1) >= 0 {
			w = &cutWriter{w}
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	bin := t.TempDir()
	self, err := os.Executable()
	must.OK(t, err)
	must.OK(t, os.Symlink(self, filepath.Join(bin, "kubectl")))
	must.OK(t, os.WriteFile(n.args, nil, 0o600))
	t.Setenv("PATH", bin)
	t.Setenv(kubectlEnv, served.URL)
	t.Setenv(kubectlArgsEnv, n.args)
	return n
}

// cutWriter ends a response after its first line.
type cutWriter struct{ http.ResponseWriter }

func (w *cutWriter) Write(b []byte) (int, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	_, _ = w.ResponseWriter.Write(append(line, '\n', '{'))
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// plugin runs a command line of the plugin.
func plugin(ctx context.Context, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = execute(ctx, "/usr/bin/"+pluginName, args, &o, &e)
	return code, o.String(), e.String()
}

func TestPluginAnswersForAPodOfTheCluster(t *testing.T) {
	n := newPluginNode(t)
	file := filepath.Join(t.TempDir(), "web.journalet")
	page := filepath.Join(t.TempDir(), "web.html")
	for _, c := range []struct {
		args string
		want string
	}{
		{"why web", "shop/web-node-1 is an orphan"},
		{"why pod/web -o json", `"name": "web-node-1"`},
		{"why 2 --node node-1 --all", "#2"},
		{"why uid-1 --node node-1", "is an orphan"},
		{"timeline web", "container main exited 3"},
		{"timeline web --file " + page, "events; open it in a browser"},
		{"observe web --no-follow", "container main exited 3 (Error)"},
		{"observe web --no-follow -o json --event pod_observed", `"seq":2`},
		{"observe --node node-1 --no-follow -o cloudevents", `"specversion":"1.0"`},
		{"export web -o " + file, "pod shop/web on node node-1"},
		{"why shop/web --context dev --as-group a --as-group b", "is an orphan"},
	} {
		code, out, errs := plugin(t.Context(), strings.Fields(c.args)...)
		if code != exitOK || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", c.args, code, c.want, out, errs)
		}
	}
	if code, out, errs := run(t.Context(), "why", "web", "--journal", file); code != exitOK ||
		!strings.Contains(out, "is an orphan") {
		t.Errorf("the bundle: exit code %d, %s%s", code, out, errs)
	}
	said, err := os.ReadFile(n.args)
	must.OK(t, err)
	for _, want := range []string{"--as-group=a --as-group=b --context=dev get pod", " --namespace=shop -- web"} {
		if !bytes.Contains(said, []byte(want)) {
			t.Errorf("kubectl is not called with %q:\n%s", want, said)
		}
	}
	if bytes.Contains(said, []byte("--node")) {
		t.Errorf("kubectl knows no --node:\n%s", said)
	}
}

func TestPluginSaysWhatFailed(t *testing.T) {
	newPluginNode(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"why gone", exitNotFound, `pods "gone" not found; if it was deleted, name the node that it ran on with --node`},
		{"why gone --node node-1", exitNotFound, `pod "gone" is not in the journal`},
		{"why pending", exitError, "pod shop/pending is not bound to a node"},
		{"why web --node n2", exitError, "node n2 has no journal to ask"},
		{"why 2", exitUsage, "name the node with --node"},
		{"observe", exitUsage, "name a pod, or with --node"},
		{"observe web --event boom", exitUsage, "want one of"},
		{"observe --node node-1 --no-follow --cause 99", exitNotFound, "99"},
		{"export web", exitUsage, "-o FILE"},
		{"timeline web -o html --width 1", exitUsage, "--width"},
	} {
		code, out, errs := plugin(t.Context(), strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, want %d with %q in\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if code, _, errs := plugin(t.Context(), "why", "web"); code != exitError ||
		!strings.Contains(errs, "no kubectl in PATH") {
		t.Errorf("without kubectl: exit code %d, %s", code, errs)
	}
}

// A stream that breaks in the middle of a line, and again before there is anything new, is continued: each event is
// printed once, and so is the notice.
func TestPluginContinuesAStreamThatBreaks(t *testing.T) {
	n := newPluginNode(t)
	n.cut.Store(2)
	ctx, stop := context.WithCancel(t.Context())
	var errs bytes.Buffer
	out := &until{text: `"seq":5`, then: stop}
	for range 3 {
		must.OK(t, n.bus.Journal().Append(fact(messages.Pod("uid-1"), now, messages.NewEvent(&journaletv1.PodObserved{
			Uid: "uid-1", PodNamespace: "shop", PodName: "web-node-1",
		}))))
	}
	must.OK(t, n.bus.Journal().Flush(t.Context()))
	code := execute(ctx, pluginName, []string{"observe", "--node", "node-1", "--from", "1", "-o", "json"}, out, &errs)
	for seq := range 5 {
		if got := strings.Count(out.wrote.String(), fmt.Sprintf(`"seq":%d,`, seq+1)); got != 1 {
			t.Errorf("record %d is printed %d times", seq+1, got)
		}
	}
	if code != exitOK || strings.Count(errs.String(), "lost the connection to the agent of node node-1") != 1 {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
}

// until calls a function once a text was written.
type until struct {
	wrote bytes.Buffer
	text  string
	then  func()
}

func (u *until) Write(b []byte) (int, error) {
	u.wrote.Write(b)
	if bytes.Contains(b, []byte(u.text)) {
		u.then()
	}
	return len(b), nil
}

func TestPluginCompletesForKubectl(t *testing.T) {
	var out bytes.Buffer
	if code := execute(t.Context(), pluginCompleteName, []string{"w"}, &out, io.Discard); code != exitOK ||
		!strings.HasPrefix(out.String(), "why\t") {
		t.Errorf("exit code %d: %s", code, &out)
	}
}
