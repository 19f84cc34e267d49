package kubelet

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/test/must"
)

// answers are requests with the beginning or a part of what is answered.
type answers []struct {
	request string // method and path
	code    int
	text    string
}

func (n *node) answers(all answers) {
	n.t.Helper()
	for _, c := range all {
		method, path, _ := strings.Cut(c.request, " ")
		if code, text := n.do(method, path); code != c.code || !strings.Contains(text, c.text) {
			n.t.Errorf("%s: %d %q, want %d %q", c.request, code, text, c.code, c.text)
		}
	}
}

func TestPodsAreAListWithTheirStatus(t *testing.T) {
	n := newNode(t, nil)
	_, text := n.do(http.MethodGet, "/pods")
	var list corev1.PodList
	must.OK(t, bounded.JSON([]byte(text), len(text), &list))
	if list.Kind != "PodList" || len(list.Items) != 1 || list.Items[0].Status.Phase != corev1.PodRunning {
		t.Errorf("got %s", text)
	}
	n.answers(answers{
		{"GET /runningpods/", 200, `"name":"web","namespace":"default","uid":"uid-1"`},
		{"POST /pods", 405, ""},
		{"GET /nothing", 404, ""},
	})
}

func TestRunAnswersWithTheOutput(t *testing.T) {
	n := newNode(t, nil)
	n.answers(answers{
		{"POST /run/default/web/main?cmd=echo%20a%20b", 200, "agent/main echo|a|b"},
		{"POST /run/default/web/uid-1/main?cmd=echo", 200, "agent/main echo"},
		{"POST /run/default/web/main?cmd=false%20secret", 500, "command 'false secret' exited with 1: no"},
		{"POST /run/default/web/none?cmd=echo", 500, `container not found ("none")`},
		{"POST /run/default/none/main?cmd=echo", 404, "pod does not exist"},
		{"GET /run/default/web/main?cmd=echo", 405, ""},
	})
	start, end := n.record.last(t, 2)
	if start.GetCommand() != "false" || end.GetExitCode() != 1 ||
		strings.Contains(start.String()+end.String(), "secret") {
		t.Errorf("recorded %v and %v", start, end)
	}
}

func TestCheckpointNamesItsContainerAndRecordsNoError(t *testing.T) {
	n := newNode(t, func(o *Options) { o.CheckpointDir = filepath.Join(t.TempDir(), "checkpoints") })
	n.answers(answers{
		{"POST /checkpoint/default/web/none", 404, "container none does not exist"},
		{"POST /checkpoint/default/web/main?timeout=x", 404, "cannot parse value of timeout parameter"},
		{"POST /checkpoint/default/web/main?timeout=7", 500, "checkpointing of default/web/main failed"},
		{"POST /checkpoint/default/web/main?timeout=7", 500, "no checkpoint of agent/main in 7 s"},
	})
	if start, end := n.record.last(t, 0); start.GetKind() != journaletv1.SessionKind_SESSION_KIND_CHECKPOINT ||
		end.GetMessage() != failedRefused {
		t.Errorf("recorded %v and %v", start, end)
	}
}

func TestHealthNamesChecksAndCountsThem(t *testing.T) {
	var broken error
	n := newNode(t, func(o *Options) {
		o.Health = func() []Check { return []Check{{Name: "file source"}, {Name: "pleg", Err: broken}} }
	})
	n.answers(answers{
		{"GET /healthz", 200, "ok"},
		{"GET /healthz?verbose", 200, "[+]ping ok\n[+]file-source ok\n[+]pleg ok\nhealthz check passed"},
		{"GET /healthz/file-source", 200, "ok"},
		{"GET /healthz/none", 404, ""},
		{"GET /healthz/log", 200, "ok"},
		{"GET /healthz/syncloop", 200, "ok"},
	})
	broken = errors.New("no relist")
	n.answers(answers{
		{"GET /healthz", 500, "[-]pleg failed: no relist\nhealthz check failed"},
		{"GET /healthz?exclude=pleg&exclude=x", 200, "ok"},
		{"GET /healthz?exclude=pleg&exclude=x&verbose", 200, `no matches for "x"`},
		{"GET /healthz/pleg", 500, "internal server error: no relist"},
		{"GET /healthz/log", 200, "ok"},
		{"GET /healthz/syncloop", 500, "internal server error: no relist"},
		{"GET /metrics/slis", 200, `kubernetes_healthcheck{name="pleg",type="healthz"} 0`},
		{"GET /metrics/slis", 200, `kubernetes_healthchecks_total{name="pleg",status="success",type="healthz"}`},
	})
}

func TestPagesShowWhatRuns(t *testing.T) {
	level := -1
	n := newNode(t, func(o *Options) {
		o.Config = func() any { return map[string]string{"kind": "KubeletConfiguration"} }
		o.Flags = func() []Flag { return []Flag{{"max-pods", "110"}} }
		o.About.Version = "v9"
		o.SetVerbosity = func(v int) { level = v }
	})
	n.answers(answers{
		{"GET /configz", 200, `{"kubeletconfig":{"kind":"KubeletConfiguration"}}`},
		{"GET /flagz", 200, "max-pods=110"},
		{"GET /statusz", 200, "Binary version: v9"},
		{"GET /statusz", 200, " /exec "},
		{"GET /debug/pprof/", 200, "goroutine"},
		{"GET /debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"GET /debug/pprof/cmdline", 200, "\x00--max-pods=110"}, // what /flagz withholds is not among the flags
		{"GET /debug/pprof/none", 404, "Unknown profile"},
		{"GET /debug/flags/v", 406, "unsupported http method"},
		{"PUT /debug/flags/v", 400, "failed set"},
	})
	for accept, want := range map[string]string{
		"application/json;as=Statusz;v=v1beta1;g=config.k8s.io": `{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1",` +
			`"metadata":{"name":"kubelet"},"startTime":`,
		"application/json;as=Flagz;v=v1alpha1;g=config.k8s.io": `{"kind":"Flagz","apiVersion":"config.k8s.io/v1alpha1",` +
			`"metadata":{"name":"kubelet"},"flags":{"max-pods":"110"}}`,
		"application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz": "flags:\n  max-pods: \"110\"\n",
		"text/html, */*;q=0.1":                                "max-pods=110",
		"application/json":                                    "only the following media types are accepted",
	} {
		path := "/flagz"
		if strings.Contains(accept, "Statusz") {
			path = "/statusz"
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.tcp.URL+path, nil)
		must.OK(t, err)
		req.Header.Set("Accept", accept)
		resp, err := n.tcp.Client().Do(req)
		must.OK(t, err)
		body, err := bounded.ReadAll(resp.Body, 1<<20)
		must.OK(t, err)
		resp.Body.Close()
		if !strings.Contains(string(body), want) || (resp.StatusCode == 406) != (accept == "application/json") {
			t.Errorf("%s: %d %s, want %s", accept, resp.StatusCode, body, want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, n.tcp.URL+"/debug/flags/v", strings.NewReader("4"))
	must.OK(t, err)
	resp, err := n.tcp.Client().Do(req)
	must.OK(t, err)
	resp.Body.Close()
	if level != 4 {
		t.Errorf("the verbosity is %d, want 4", level)
	}
}

func TestDisabledPagesSayWhy(t *testing.T) {
	newNode(t, func(o *Options) { o.NoProfiling, o.NoDebugFlags = true, true }).answers(answers{
		{"GET /debug/pprof/heap", 405, "profiling endpoint is disabled."},
		{"PUT /debug/flags/v", 405, "flags endpoint is disabled."},
		{"GET /logs/", 405, "logs endpoint is disabled."},
		{"GET /metrics", 501, "not served"},
	})
}

func TestWithoutDebuggingPodsAreOutOfReach(t *testing.T) {
	newNode(t, func(o *Options) { o.NoDebugging = true }).answers(answers{
		{"GET /pods", 200, "web"},
		{"POST /exec/default/web/main?command=id&output=1", 405, "Debug endpoints are disabled."},
		{"POST /run/default/web/main?cmd=id", 405, "Debug endpoints are disabled."},
		{"GET /containerLogs/default/web/main", 405, "Debug endpoints are disabled."},
		{"GET /runningpods/", 405, "Debug endpoints are disabled."},
		{"GET /journal/why", 405, "Debug endpoints are disabled."},
		{"GET /configz", 404, ""},
	})
}

func TestSystemLogsAreRegularFilesOfTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "log")
	must.OK(t, os.MkdirAll(filepath.Join(logs, "sub"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(logs, "sys.log"), []byte("<b>line</b>"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(logs, "<script>"), nil, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600))
	must.OK(t, os.Symlink(filepath.Join(dir, "secret"), filepath.Join(logs, "out")))
	must.OK(t, os.Symlink("../secret", filepath.Join(logs, "up")))
	must.OK(t, os.Symlink("..", filepath.Join(logs, "dir")))
	must.OK(t, unix.Mkfifo(filepath.Join(logs, "pipe"), 0o600))
	n := newNode(t, func(o *Options) { o.SystemLogs = logs })
	n.answers(answers{
		{"GET /logs/sys.log", 200, "<b>line</b>"},
		{"GET /logs/", 200, `<a href="sys.log">sys.log</a>`},
		{"GET /logs/", 200, "&lt;script&gt;"},
		{"GET /logs/sub/", 200, "<pre>"},
		{"GET /logs/out", 403, ""},
		{"GET /logs/up", 403, ""},
		{"GET /logs/dir/secret", 403, ""},
		{"GET /logs/pipe", 403, ""},
		{"GET /logs/..%2fsecret", 404, ""},
		{"GET /logs/%2e%2e/secret", 404, ""},
		{"GET /logs/none", 404, ""},
		{"GET /logs/?query=kubelet", 405, "set enableSystemLogQuery"},
		{"POST /logs/sys.log", 405, ""},
	})
}
