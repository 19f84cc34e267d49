package incidents_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/scenario"
)

// outDir lets a person try the incidents by hand: journalet why shop/web --journal DIR/crash_loop.bundle.
var outDir = flag.String("incidents.out", "", "directory to write the incidents' journals to, as bundles")

// play plays an incident and returns its journal.
func play(t *testing.T, name string) *history.Memory {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	s := scenario.New()
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		out := s.Run(d)
		if strings.Contains(out, "WRONG") {
			t.Errorf("%s: %s", d.Pos, out)
		}
		return out
	})
	m, err := s.Journal()
	must.OK(t, err)
	return m
}

func TestIncidentsPlay(t *testing.T) {
	files, err := os.ReadDir("testdata")
	must.OK(t, err)
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".txt"); ok {
			t.Run(name, func(t *testing.T) {
				m := play(t, name)
				if len(m.Records) == 0 {
					t.Error("nothing is recorded")
				}
				if *outDir != "" {
					pack(t, m, filepath.Join(*outDir, name+".bundle"))
				}
			})
		}
	}
}
