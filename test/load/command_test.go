package load

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// commandRuns is how often BenchmarkCommand starts each command, in turn.
const commandRuns = 21

// BenchmarkCommand measures what each command pays for: the program's size, and the least time of commands that only
// start. Whatever else the machine does adds to a time.
func BenchmarkCommand(b *testing.B) {
	info, err := os.Stat(program)
	must.OK(b, err)
	took := map[string][]float64{}
	for range b.N * commandRuns {
		for _, args := range []string{"version", "--help"} {
			began := time.Now()
			must.OK(b, exec.Command(program, args).Run())
			took[args] = append(took[args], float64(time.Since(began))/float64(time.Millisecond))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB-program")
	for args, all := range took {
		b.ReportMetric(slices.Min(all), "ms-"+strings.TrimLeft(args, "-"))
	}
}
