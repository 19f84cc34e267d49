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
		p := &PLEG{opts: Options{PodLogDir: t.TempDir()}}
		path := filepath.Join(p.opts.PodLogDir, "0.log")
		must.OK(t, os.WriteFile(path, []byte(log), 0o600))
		text := strings.TrimSuffix(p.logTail(&runtimeapi.ContainerStatus{LogPath: path}), "\n")
		if want := maxLogMessageBytes - 1; len(text) < want || !strings.HasSuffix(text, "xEND") {
			t.Errorf("%s: %d bytes that end in %q", name, len(text), text[max(0, len(text)-8):])
		}
	}
}
