package kubelet

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/test/must"
)

// queried returns a node whose journalctl is a script: it knows two units, prints its arguments, and what body prints.
func queried(t *testing.T, body string) (n *node, logs string) {
	t.Helper()
	dir := t.TempDir()
	logs = filepath.Join(dir, "log")
	must.OK(t, os.MkdirAll(filepath.Join(logs, "svc"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600))
	script := filepath.Join(dir, "journalctl")
	must.OK(t, os.WriteFile(script, []byte("#!/bin/sh\nif [ \"$1\" = --field ]; then\n"+
		"  printf 'init.scope\\nkubelet.service\\nsshd@1.service\\n'; exit\nfi\nprintf '<%s>' \"$@\"\n"+body+"\n"), 0o700))
	n = newNode(t, func(o *Options) {
		o.SystemLogs, o.SystemLogQuery, o.Journalctl = logs, true, script
		if strings.Contains(body, "yes") {
			o.queryTimeout = 300 * time.Millisecond
		}
	})
	return n, logs
}

func TestQueryOfSystemLogsIsTheKubelets(t *testing.T) {
	n, logs := queried(t, "exit 3")
	for name, text := range map[string]string{
		"plain": "of plain", "dotted.log": "of dotted", "svc/svc.log": "of svc", "kubelet.log": "not this one",
	} {
		must.OK(t, os.WriteFile(filepath.Join(logs, name), []byte(text), 0o600))
	}
	must.OK(t, os.Symlink("../secret", filepath.Join(logs, "linked.log")))
	must.OK(t, os.Symlink("/etc/passwd", filepath.Join(logs, "absolute")))
	must.OK(t, unix.Mkfifo(filepath.Join(logs, "pipe.log"), 0o600))
	const always = "<--utc><--no-pager><--output=short-precise>"
	n.answers(answers{
		{"GET /logs/?query=kubelet", 200, always + "<--unit=kubelet>"},
		{"POST /logs/?query=kubelet", 200, always + "<--unit=kubelet>"},
		{"GET /logs/?query=kubelet&query=sshd@1.service", 200, "<--unit=kubelet><--unit=sshd@1.service>"},
		{"GET /logs/?query=kubelet&sinceTime=2026-01-02T03:04:05%2B02:00&untilTime=2026-01-02T03:04:05Z&tailLines=0" +
			"&pattern=a.*b&boot=-1", 200, always + "<--since=2026-01-02 01:04:05 UTC><--until=2026-01-02 03:04:05 UTC>" +
			"<--pager-end><--lines=0><--unit=kubelet><--grep=a.*b><--boot><-1>"},
		{"GET /logs/?query=kubelet&tailLines=100000", 200, "<--lines=100000>"},
		{"GET /logs/?query=plain", 200, "of plain"},
		{"GET /logs/?query=dotted", 200, "of dotted"},
		{"GET /logs/?query=svc", 200, "of svc"},
		{"GET /logs/?query=kube", 200, "\nlog not found for kube\n"},
		{"GET /logs/?query=linked", 200, "error getting log for linked"},
		{"GET /logs/?query=absolute", 200, "error getting log for absolute"},
		{"GET /logs/?query=pipe", 200, "error getting log for pipe"},
		{"GET /logs/?query=kubelet&query=plain", 200, "<--unit=kubelet>of plain"},
		{"GET /logs/?query=plain&tailLines=3", 200, "options present and query resolved to log files for [plain]"},
		{"GET /logs/?query=/plain", 200, "of plain"},
		{"GET /logs/?query=svc%5csvc.log", 200, "of svc"},
		{"GET /logs/plain", 200, "of plain"},
		{"GET /logs/", 200, `<a href="plain">plain</a>`},

		{"GET /logs/?query=../secret", 406, "not within the log directory"},
		{"GET /logs/?query=/../secret", 406, "not within"},
		{"GET /logs/?query=..%5csecret", 406, "not within"},
		{"GET /logs/?query=//etc/passwd", 406, "not within"},
		{"GET /logs/?query=/linked.log", 406, "leads out"},
		{"GET /logs/?query=/none", 406, "no such file"},
		{"GET /logs/?query=..", 406, "unsupported characters"},
		{"GET /logs/?query=a%20b", 406, "unsupported characters"},
		{"GET /logs/?query=a%3bid", 406, "unsupported characters"},
		{"GET /logs/?query=" + strings.Repeat("a", 257), 406, "length"},
		{"GET /logs/?query=a&query=b&query=c&query=d&query=e", 406, "must have at most 4 items"},
		{"GET /logs/?query=a&query=/plain", 406, "cannot specify a file and service"},
		{"GET /logs/?query=/a&query=/plain", 406, "more than one file"},
		{"GET /logs/?query=/plain&tailLines=3", 406, "cannot specify file with options"},
		{"GET /logs/?tailLines=3", 406, "cannot be empty with options"},
		{"GET /logs/plain?query=kubelet", 406, "path not allowed in query mode"},
		{"GET /logs/?query=kubelet&tailLines=-1", 406, "tailLines"},
		{"GET /logs/?query=kubelet&tailLines=100001", 406, "tailLines"},
		{"GET /logs/?query=kubelet&boot=1", 406, "must be less than 1"},
		{"GET /logs/?query=kubelet&pattern=(", 406, "pattern"},
		{"GET /logs/?query=kubelet&pattern=" + strings.Repeat("a", 4097), 406, "pattern"},
		{"GET /logs/?query=kubelet&sinceTime=2026-01-03T00:00:00Z&untilTime=2026-01-02T00:00:00Z", 406, "untilTime"},
		{"GET /logs/?query=", 400, "may not be empty"},
		{"GET /logs/?query=%20", 400, "may not be empty"},
		{"GET /logs/?query=kubelet&sinceTime=yesterday", 400, "invalid time format"},
		{"GET /logs/?query=kubelet&tailLines=x", 400, "tailLines"},
		{"GET /logs/?query=kubelet&boot=x", 400, "boot"},
		{"POST /logs/plain", 405, ""},
		{"PUT /logs/?query=kubelet", 405, ""},
	})
}

func TestQueryOfSystemLogsIsZippedOnRequest(t *testing.T) {
	n, _ := queried(t, "")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, local.BaseURL+"/logs/?query=kubelet", http.NoBody)
	must.OK(t, err)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := n.client.HTTP.Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	from, err := gzip.NewReader(resp.Body)
	must.OK(t, err)
	text, err := io.ReadAll(from)
	must.OK(t, err)
	if resp.Header.Get("Content-Encoding") != "gzip" || !strings.HasSuffix(string(text), "<--unit=kubelet>") {
		t.Errorf("%v: %s", resp.Header, text)
	}
}

func TestOneQueryTooManyIsRefused(t *testing.T) {
	s := New(Options{Pods: fakePods{}, SystemLogs: t.TempDir(), SystemLogQuery: true, Journalctl: "/nonexistent"})
	request := func() int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/logs/?query=kubelet", http.NoBody))
		return w.Code
	}
	for range maxLogQueries {
		s.logQueries <- struct{}{}
	}
	if code := request(); code != http.StatusTooManyRequests {
		t.Errorf("answered with %d", code)
	}
	<-s.logQueries
	if code := request(); code != http.StatusOK || len(s.logQueries) != maxLogQueries-1 {
		t.Errorf("answered with %d, and %d places are taken", code, len(s.logQueries))
	}
}

// Clients that read nothing hold up only so many queries, and each ends, with its program.
func TestClientsThatReadNothingHoldUpNoQuery(t *testing.T) {
	pids := t.TempDir()
	n, _ := queried(t, "echo $$ >"+pids+"/$$\nexec yes 0123456789012345678901234567890123456789")
	started := func() []os.DirEntry {
		all, err := os.ReadDir(pids)
		must.OK(t, err)
		return all
	}
	// A query that ends before its program has begun, since the machine is slow, has another one.
	for len(started()) < maxLogQueries {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", n.tcp.Listener.Addr().String())
		must.OK(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "GET /logs/?query=kubelet HTTP/1.1\r\nHost: n\r\n\r\n")
		must.OK(t, err)
		_, err = conn.Read(make([]byte, 1)) // its program has begun, or it has ended; then nothing more is read
		must.OK(t, err)
	}
	const wait = time.Minute
	must.Eventually(t, wait, "still answered with", func() (string, bool) {
		code, text := n.do(http.MethodGet, "/logs/?query=nothing")
		return fmt.Sprint(code, " ", text), code == http.StatusOK && strings.Contains(text, "log not found")
	})
	// Who reads gets what there is until the end of the time, and a last line says so.
	if code, text := n.do(http.MethodGet, "/logs/?query=kubelet"); code != http.StatusOK ||
		!strings.HasSuffix(text, "\nerror: the query was ended after 300ms\n") {
		t.Errorf("answered with %d, %d bytes", code, len(text))
	}
	for _, e := range started() {
		pid, err := strconv.Atoi(e.Name())
		must.OK(t, err)
		must.Until(t, wait, fmt.Sprintf("process %d ends", pid), func() bool { return unix.Kill(pid, 0) != nil })
	}
}

// Log shippers follow /var/log/containers; who can put a link into the log directory reads nothing else by it.
func TestLinksOfSystemLogsStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "log")
	must.OK(t, os.MkdirAll(filepath.Join(logs, "pods/ns_p_u/c"), 0o700))
	must.OK(t, os.MkdirAll(filepath.Join(logs, "containers"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(logs, "pods/ns_p_u/c/0.log"), []byte("line"), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "shadow"), []byte("root:secret"), 0o600))
	must.OK(t, os.Symlink(logs, filepath.Join(dir, "alias")))
	for name, target := range map[string]string{
		"containers/p_ns_c-id.log": filepath.Join(dir, "alias/pods/ns_p_u/c/0.log"),
		"containers/real.log":      filepath.Join(logs, "pods/ns_p_u/c/0.log"),
		"containers/shadow.log":    filepath.Join(dir, "shadow"), "containers/up.log": "../../shadow",
		"containers/dots.log": filepath.Join(logs, "../shadow"), "all": "/", "self": "/proc/self/root",
		"containers/loop.log": "loop.log", "containers/fd.log": "/proc/self/fd/0", "subdirectory": "pods",
		"containers/mem.log": "/proc/self/mem", "containers/device.log": "/dev/zero",
	} {
		must.OK(t, os.Symlink(target, filepath.Join(logs, name)))
	}
	n := newNode(t, func(o *Options) { o.SystemLogs = filepath.Join(dir, "alias") })
	n.answers(answers{
		{"GET /logs/containers/p_ns_c-id.log", 200, "line"},
		{"GET /logs/containers/real.log", 200, "line"},
		{"GET /logs/containers/", 200, "p_ns_c-id.log"},
		{"GET /logs/subdirectory/", 200, "ns_p_u/"},
		{"GET /logs/subdirectory/ns_p_u/c/0.log", 200, "line"},
		{"GET /logs/containers/shadow.log", 403, ""},
		{"GET /logs/containers/up.log", 403, ""},
		{"GET /logs/containers/dots.log", 403, ""},
		{"GET /logs/containers/loop.log", 403, ""},
		{"GET /logs/containers/fd.log", 403, ""},
		{"GET /logs/containers/mem.log", 403, ""},
		{"GET /logs/containers/device.log", 403, ""},
		{"GET /logs/all/etc/passwd", 403, ""},
		{"GET /logs/all/", 403, ""},
		{"GET /logs/self/etc/passwd", 403, ""},
	})
}
