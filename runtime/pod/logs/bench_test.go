package logs_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/runtime/pod/logs"
)

// BenchmarkRead reads a log of 256 MiB of lines of 100 bytes.
func BenchmarkRead(b *testing.B) {
	for name, q := range map[string]logs.Query{
		"all": all, "timestamps": {Stdout: true, Stderr: true, Timestamps: true},
		"since": {Stdout: true, Stderr: true, Since: time.Unix(0, 0)},
		"tail":  {Stdout: true, Stderr: true, Tail: number(int64(1 << 40))},
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			block := strings.Repeat(w.lines(strings.Repeat("x", 100)), 1<<20/143)
			w.write("0.log", strings.Repeat(block, 256))
			r := logs.New(logs.Options{Dir: w.top})
			b.SetBytes(int64(256 * len(block)))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if _, err := r.Read(b.Context(), w.log(), q, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFollowLatency measures how long after it was written a line is printed.
func BenchmarkFollowLatency(b *testing.B) {
	for way, o := range ways {
		b.Run(way, func(b *testing.B) {
			w := newWorld(b)
			w.write("0.log", w.lines("first"))
			f := w.follow(all, o)
			f.until(b, "first\n")
			var took []time.Duration
			for b.Loop() {
				line := w.lines("next")
				begun := time.Now()
				w.append("0.log", line)
				<-f.grew
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
		})
	}
}
