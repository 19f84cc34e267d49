package pleg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

// The end of the log is the message however long its last line is: one of a single record, or of several.
func TestTheEndOfALongLineIsTheMessage(t *testing.T) {
	const header = "2026-11-26T20:00:00.000000000Z stdout "
	full := strings.Repeat("x", maxRecordBytes)
	for name, log := range map[string]string{
		"one record":             header + "F " + strings.Repeat("x", 14000) + "END\n",
		"the longest record":     header + "F " + full[3:] + "END\n",
		"several records":        header + "P " + full + "\n" + header + "F " + strings.Repeat("x", 4000) + "END\n",
		"a short last record":    header + "P " + full + "\n" + header + "F END\n",
		"without an end of line": header + "P " + full + "\n" + header + "P " + full[3:] + "END",
	} {
		p := &PLEG{opts: Options{PodLogDir: t.TempDir(), ReadTail: tailOnDisk}}
		path := filepath.Join(p.opts.PodLogDir, "0.log")
		must.OK(t, os.WriteFile(path, []byte(log), 0o600))
		text := strings.TrimSuffix(p.logTail(&runtimeapi.ContainerStatus{LogPath: path}), "\n")
		if want := maxLogMessageBytes - 1; len(text) < want || !strings.HasSuffix(text, "xEND") {
			t.Errorf("%s: %d bytes that end in %q", name, len(text), text[max(0, len(text)-8):])
		}
	}
}

// A log that was rotated just before the end still has its end: in the live file, and before that in the rotated one.
func TestTheEndOfARotatedLogIsTheMessage(t *testing.T) {
	const header = "2026-11-26T20:00:00.000000000Z stdout F "
	const older, newer = "0.log.20261126-195900", "0.log.20261126-195959"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"the live file is new":     {map[string]string{older: "a", newer: "b", "0.log": ""}, "b\n"},
		"it has the last line":     {map[string]string{newer: "b", "0.log": "c"}, "b\nc\n"},
		"there is no live file":    {map[string]string{newer: "b"}, "b\n"},
		"the rotated one is older": {map[string]string{older + ".gz": "a", "0.log": "c"}, "c\n"},
		"of another container":     {map[string]string{"1" + newer[1:]: "b", "0.log": "c"}, "c\n"},
	} {
		p := &PLEG{opts: Options{PodLogDir: t.TempDir(), ReadTail: tailOnDisk}}
		dir := filepath.Join(p.opts.PodLogDir, "pod", "main")
		must.OK(t, os.MkdirAll(dir, 0o700))
		for file, text := range c.files {
			if text != "" {
				text = header + text + "\n"
			}
			must.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		got := p.logTail(&runtimeapi.ContainerStatus{LogPath: filepath.Join(dir, "0.log")})
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
