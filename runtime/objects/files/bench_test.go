package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/watch"
	"github.com/journalet/journalet/test/must"
)

// later is a clock ten seconds ahead, so that no stamp of the test's files is racy.
type later struct{ clock.Clock }

func (l later) Now() time.Time { return l.Clock.Now().Add(10 * time.Second) }

// thousand returns a directory of 1,000 ConfigMap files that has been read.
func thousand(tb testing.TB) *directory {
	dir := tb.TempDir()
	for i := range 1000 {
		path := filepath.Join(dir, fmt.Sprintf("%04d.yaml", i))
		must.OK(tb, os.WriteFile(path, []byte(configMapYAML(fmt.Sprint("c", i), "value")), 0o600))
	}
	b := New(Options{Objects: dir, Clock: later{clock.Real{}}})
	decode := decoder{log: b.opts.Log, warned: sets.New[string]()}
	d := b.newDirectory(dir, b.opts.Log, decode.decode)
	d.limit, d.total = manifest.DefaultMaxBytes, maxTotalBytes
	d.open(watch.New(dir, b.opts.Log))
	tb.Cleanup(d.files.Close)
	d.scan()
	d.publish()
	if n := len(d.view.Load().files); n != 1000 {
		tb.Fatalf("%d files", n)
	}
	return d
}

func TestIdleRereadReadsNothing(t *testing.T) {
	d := thousand(t)
	d.scan()
	before := d.view.Load()
	allocations := testing.AllocsPerRun(10, func() {
		d.scan()
		d.publish()
	})
	if allocations > 5*1000 || d.view.Load() != before {
		t.Errorf("%v allocations for 1,000 files that did not change; another view: %t", allocations, d.view.Load() != before)
	}
}

// A reread of 1,000 files comes every 20 s: what it takes is what watching them costs.
func BenchmarkIdleReread(b *testing.B) {
	d := thousand(b)
	for b.Loop() {
		d.scan()
		d.publish()
	}
}
