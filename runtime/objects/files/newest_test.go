package files

import (
	"fmt"
	"testing"
	"time"
)

// A pod keeps an immutable object, so that what it gets must not be older than the pod: the notification of a change
// that was done a moment before the pod may still be on its way.
func TestObjectIsReadAsNewAsItsWatch(t *testing.T) {
	r := newRig(t, nil)
	r.write("objects/z.yaml", configMapYAML("z", "1")) // keeps the paths followed
	r.write("objects/a.yaml", configMapYAML("a", "1")+"immutable: true\n")
	r.start()
	r.Watch(key(configMap, "z"))
	r.reads("z PRESENT 1")
	for i := range 10 {
		r.write("objects/a.yaml", configMapYAML("a", fmt.Sprint("new", i))+"immutable: true\n")
		watched := time.Now()
		r.Watch(key(configMap, "a"))
		select {
		case batch := <-r.batch:
			o := batch[key(configMap, "a")]
			if got, want := show(key(configMap, "a"), o), fmt.Sprintf("a PRESENT new%d immutable", i); got != want {
				t.Fatalf("read %q, want %q", got, want)
			}
			if o.Requested.Before(watched) {
				t.Fatalf("the files were checked at %v, before the watch at %v", o.Requested, watched)
			}
		case <-time.After(deadline):
			t.Fatal("nothing read")
		}
		r.Unwatch(key(configMap, "a"))
	}
}
