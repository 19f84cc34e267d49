package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxLogLine is where containerd cuts a line into partial ones (its default, 16 KiB).
const maxLogLine = 16 << 10

// logWriter writes a container's output in the CRI log format: time, stream, F or P, text. A nil one drops it.
type logWriter struct{ f *os.File }

// openLog opens a container's log for appending. Without a path, or if the sandbox's log directory does not exist,
// there is no log: a trial with invented paths must not litter the disk. Only the container's own directory is created.
func openLog(path string) (*logWriter, error) {
	if path == "" {
		return nil, nil
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(filepath.Dir(dir)); err != nil || !st.IsDir() {
		return nil, nil
	}
	//nolint:gosec // G301: log shippers read it without root
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return nil, fmt.Errorf("create log directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &logWriter{f: f}, nil
}

func (w *logWriter) write(now time.Time, stream Stream, text string) error {
	if w == nil {
		return nil
	}
	stamp := now.UTC().Format(time.RFC3339Nano)
	var out strings.Builder
	for line := range strings.Lines(text) {
		whole := strings.HasSuffix(line, "\n")
		line = strings.TrimSuffix(line, "\n")
		for len(line) > maxLogLine {
			fmt.Fprintf(&out, "%s %s P %s\n", stamp, stream, line[:maxLogLine])
			line = line[maxLogLine:]
		}
		tag := "F"
		if !whole {
			tag = "P"
		}
		fmt.Fprintf(&out, "%s %s %s %s\n", stamp, stream, tag, line)
	}
	_, err := w.f.WriteString(out.String())
	return err
}

func (w *logWriter) close() {
	if w != nil {
		_ = w.f.Close()
	}
}
