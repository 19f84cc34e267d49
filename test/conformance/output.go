package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// logLine is one line of a CRI log file: time, stream, tag, text.
type logLine struct {
	at          time.Time
	stream, tag string
	text        string
}

func parseLog(b []byte) ([]logLine, error) {
	var out []logLine
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, "\n") {
			break // still being written
		}
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(f) != 4 || (f[1] != "stdout" && f[1] != "stderr") || (f[2] != "F" && f[2] != "P") {
			return nil, fmt.Errorf("%q is not a line of the CRI log format", line)
		}
		at, err := time.Parse(time.RFC3339Nano, f[0])
		if err != nil {
			return nil, err
		}
		out = append(out, logLine{at, f[1], f[2], f[3]})
	}
	return out, nil
}

// output waits until a container's log holds at least n full lines of a stream, and returns their text. It polls: the
// runtime announces no writes, and may write a little after the process has ended.
func (s *suite) output(t *testing.T, id, stream string, n int) string {
	t.Helper()
	file := s.status(t, id).GetLogPath()
	var text strings.Builder
	eventually(t, fmt.Sprintf("%s holds %d lines of %s", file, n, stream), func() bool {
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		lines, err := parseLog(b)
		if err != nil {
			t.Fatal(err)
		}
		text.Reset()
		full := 0
		for _, l := range lines {
			if l.stream != stream {
				continue
			}
			text.WriteString(l.text)
			if l.tag == "F" {
				text.WriteByte('\n')
				full++
			}
		}
		return full >= n
	})
	return text.String()
}

func (s *suite) logs(t *testing.T) {
	t.Run("both streams, whole and cut lines", func(t *testing.T) {
		long := strings.Repeat("x", 20_000)
		p := s.newPod(t)
		config := p.containerConfig("main", script(`echo one; echo two >&2; echo "$LONG"`)...)
		config.Envs = []*cri.KeyValue{{Key: "LONG", Value: []byte(long)}}
		began := time.Now()
		id := p.start(t, config)
		s.exited(t, id)
		equal(t, "stdout", s.output(t, id, "stdout", 2), "one\n"+long+"\n")
		equal(t, "stderr", s.output(t, id, "stderr", 1), "two\n")
		b, err := os.ReadFile(s.status(t, id).GetLogPath())
		if err != nil {
			t.Fatal(err)
		}
		lines, err := parseLog(b)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "tag of a long line's first piece", partOf(lines, "xx").tag, "P")
		for _, l := range lines {
			if l.at.Before(began.Add(-time.Minute)) || l.at.After(time.Now().Add(time.Minute)) {
				t.Errorf("a line is from %s", l.at)
			}
		}
	})
	t.Run("continues in a new file after rotation", func(t *testing.T) {
		p := s.newPod(t)
		id := p.start(t, p.containerConfig("main", script("while true; do echo tick; sleep 0.1; done")...))
		s.output(t, id, "stdout", 1)
		file := s.status(t, id).GetLogPath()
		if err := os.Rename(file, file+".1"); err != nil {
			t.Fatal(err)
		}
		must(t, s.runtime.ReopenContainerLog, &cri.ReopenContainerLogRequest{ContainerId: id})
		s.output(t, id, "stdout", 2)
		s.stopContainer(t, id, 0)
		mustFail(t, "the log of an exited container was reopened", s.runtime.ReopenContainerLog,
			&cri.ReopenContainerLogRequest{ContainerId: id})
	})
}

func partOf(lines []logLine, prefix string) logLine {
	for _, l := range lines {
		if strings.HasPrefix(l.text, prefix) {
			return l
		}
	}
	return logLine{}
}

func (s *suite) exec(t *testing.T) {
	p := s.newPod(t)
	id := p.start(t, p.containerConfig("main", script("touch /tmp/healthy; echo up; sleep 100000")...))
	s.output(t, id, "stdout", 1)
	run := func(timeout int64, argv ...string) (*cri.ExecSyncResponse, error) {
		return s.runtime.ExecSync(call(t), &cri.ExecSyncRequest{ContainerId: id, Cmd: argv, Timeout: timeout})
	}
	t.Run("returns output and exit code", func(t *testing.T) {
		resp, err := run(10, script("echo out; echo err >&2; exit 3")...)
		if err != nil {
			t.Fatalf("ExecSync: %v", err)
		}
		equal(t, "stdout", string(resp.GetStdout()), "out\n")
		equal(t, "stderr", string(resp.GetStderr()), "err\n")
		equal(t, "exit code", resp.GetExitCode(), 3)
	})
	t.Run("sees the container's files", func(t *testing.T) {
		resp, err := run(10, "cat", "/tmp/healthy")
		if err != nil {
			t.Fatalf("ExecSync: %v", err)
		}
		equal(t, "exit code", resp.GetExitCode(), 0)
		if resp, err = run(10, "cat", "/tmp/absent"); err != nil || resp.GetExitCode() != 1 {
			t.Errorf("cat of a file that does not exist: %v, %v", resp, err)
		}
	})
	t.Run("ends at its timeout", func(t *testing.T) {
		_, err := run(1, "sleep", "1000")
		equal(t, "code", status.Code(err), codes.DeadlineExceeded)
	})
	t.Run("needs a running container", func(t *testing.T) {
		s.stopContainer(t, id, 0)
		if _, err := run(10, "true"); err == nil {
			t.Error("a command ran in an exited container")
		}
	})
}
