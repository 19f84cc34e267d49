package main

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/api/stream"
	"github.com/journalet/journalet/test/must"
)

const topResponse = `{"node": {"nodeName": "n1", "cpu": {"usageNanoCores": 250000000},
  "memory": {"workingSetBytes": 1073741824, "availableBytes": 3221225472}}, "pods": [
 {"podRef": {"name": "web-n1", "namespace": "default", "uid": "u1"},
  "containers": [{"name": "app", "cpu": {"usageNanoCores": 1500001, "psi": {"some": {"avg10": 2.5}}},
    "memory": {"workingSetBytes": 20971520}}, {"name": "side", "memory": {"workingSetBytes": 1048576}}],
  "network": {"rxBytes": 20480, "txBytes": 512}},
 {"podRef": {"name": "db\u001b[2J", "namespace": "kube-system", "uid": "u2"},
  "containers": [{"name": "db", "cpu": {"usageNanoCores": 90000000}, "memory": {"workingSetBytes": 2097152}}],
  "cpu": {"usageNanoCores": 1, "psi": {"some": {"avg10": 0.1}}}}]}`

// topServer serves one response as an agent does, and the pods of the node.
func topServer(t *testing.T, response string) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, stream.SocketName))
	must.OK(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/stats/summary", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(response)) })
	mux.HandleFunc("/pods", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items": [{"metadata": {"name": "idle", "namespace": "default", "uid": "u3"}}]}`))
	})
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return dir
}

func TestTopPrintsTheColumnsOfKubectl(t *testing.T) {
	dir := topServer(t, topResponse)
	for _, c := range []struct {
		args string
		want string
	}{
		{"top", `
NAMESPACE     NAME          CPU(cores)   MEMORY(bytes)
default       web-n1        2m           21Mi
kube-system   db\u001b[2J   90m          2Mi`},
		{"top pods --sort-by=cpu --no-headers", `
kube-system   db\u001b[2J   90m   2Mi
default       web-n1        2m    21Mi`},
		{"top pod web --containers", `
POD      NAME   CPU(cores)   MEMORY(bytes)
web-n1   app    2m           20Mi
web-n1   side   0m           1Mi`},
		{"top po web --containers --sort-by memory --sum", `
POD      NAME   CPU(cores)   MEMORY(bytes)
web-n1   app    2m           20Mi
web-n1   side   0m           1Mi
                ________     ________
                2m           21Mi`},
		{"top -n default -o wide", `
NAME     CPU(cores)   MEMORY(bytes)   CPU(pressure)   MEMORY(pressure)   IO(pressure)   RECEIVED(bytes)   SENT(bytes)
web-n1   2m           21Mi            2.50%           -                  -              20Ki              512`},
		{"top u2 -o wide --no-headers -A", `
kube-system   db\u001b[2J   90m   2Mi   0.10%   -     -     -     -`},
	} {
		code, out, errs := run(t.Context(), append(strings.Fields(c.args), "--root-dir", dir)...)
		if code != 0 || errs != "" || strings.TrimSpace(out) != strings.TrimSpace(c.want) {
			t.Errorf("%s: %d %s\n%s\nwant:\n%s", c.args, code, errs, out, c.want)
		}
	}
	_, out, _ := run(t.Context(), "top", "node", "--no-headers", "--root-dir", dir)
	if f := strings.Fields(out); len(f) != 5 || f[0] != "n1" || f[1] != "250m" || f[3] != "1024Mi" || f[4] != "25%" {
		t.Errorf("top node: %s", out)
	}
	_, out, _ = run(t.Context(), "top", "web", "-o", "json", "--root-dir", dir)
	var sum struct{ Pods []json.RawMessage }
	if err := json.Unmarshal([]byte(out), &sum); err != nil || len(sum.Pods) != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTopReportsWhatItCannotShow(t *testing.T) {
	dir := topServer(t, topResponse)
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"top nobody", `pod "nobody" not found`, exitNotFound},
		{"top idle", "pod default/idle does not run", exitNotFound},
		{"top --sort-by=age", "--sort-by accepts only cpu or memory", exitUsage},
		{"top -A -n default", "exclude each other", exitUsage},
		{"top -w -o json", "--watch prints tables only", exitUsage},
		{"top -n other", "No running pods in namespace other.", 0},
		{"top one two", "accepts at most 1 arg", exitUsage},
		{"top --socket " + filepath.Join(dir, "none"), "no agent listens", exitNoAgent},
	} {
		code, _, errs := run(t.Context(), append(strings.Fields(c.args), "--root-dir", dir)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.args, code, errs, c.code, c.want)
		}
	}
	none := topServer(t, "no JSON")
	code, _, errs := run(t.Context(), "top", "--root-dir", none)
	if code == 0 || !strings.Contains(errs, "read the summary") {
		t.Errorf("a response that is none: %d %s", code, errs)
	}
}
