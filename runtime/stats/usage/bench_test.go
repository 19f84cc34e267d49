package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/cgroups"

	"github.com/journalet/journalet/test/must"
)

// benchCgroups is how many cgroups the benchmark reads: the containers of 150 pods.
const benchCgroups = 150

// BenchmarkRead150Cgroups reads real cgroups, without processes, of this machine.
func BenchmarkRead150Cgroups(b *testing.B) {
	r := NewReader("/", cgroups.IsCgroup2UnifiedMode())
	var places []Place
	for i := range benchCgroups {
		p := At(fmt.Sprintf("/journalet-bench-%d/c%d", os.Getpid(), i))
		for c := range r.mounts {
			dir := r.dir(p, c)
			must.OK(b, os.MkdirAll(dir, 0o755))
			b.Cleanup(func() { _ = os.Remove(dir); _ = os.Remove(filepath.Dir(dir)) })
		}
		places = append(places, p)
	}
	for name, want := range map[string]Want{"basic": Basic, "summary": All &^ WantDetails, "all": All} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range places {
					_, err := r.Read(p, want)
					must.OK(b, err)
				}
			}
		})
	}
}
