package why_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/scenario"
)

// TestAnswers plays a node as text, as test/scenario does, and compares what `why` answers on the way. The
// command `why POD`, `why POD container=c restart=n` or `why seq=n` prints the answer as a person reads it.
func TestAnswers(t *testing.T) {
	files, err := os.ReadDir("testdata")
	must.OK(t, err)
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".txt")
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := scenario.New()
			datadriven.RunTest(t, filepath.Join("testdata", f.Name()), func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "why" {
					return answer(t, s, d)
				}
				out := s.Run(d)
				if strings.Contains(out, "WRONG") {
					t.Errorf("%s: %s", d.Pos, out)
				}
				return out
			})
		})
	}
}

func answer(t *testing.T, s *scenario.Scenario, d *datadriven.TestData) string {
	t.Helper()
	m, err := s.Journal()
	must.OK(t, err)
	q := why.Query{}
	for _, arg := range d.CmdArgs {
		switch value := strings.Join(arg.Vals, ""); arg.Key {
		case "seq":
			q.Seq, err = strconv.ParseUint(value, 10, 64)
			must.OK(t, err)
		case "container":
			q.Container = value
		case "restart":
			n, err := strconv.Atoi(value)
			must.OK(t, err)
			q.Restart = uint32(n)
		case "uid":
			q.UID = value
		case "all":
			q.All = true
		default:
			q.Pod = arg.Key
		}
	}
	a, err := why.Explain(t.Context(), m, q)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, l := range a.Text(s.Now()) {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}
