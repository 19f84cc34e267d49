package files

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/watch"
)

// Inspect reads a path once. It returns how many objects of each kind can be read, and the problems, sorted, without
// contents. A missing path has neither.
func Inspect(path string) (found map[string]int, problems []string) {
	log := slog.New(slog.DiscardHandler)
	b := New(Options{Objects: path, Log: log})
	decode := decoder{log: log, warned: sets.New[string]()}
	d := b.newDirectory(path, log, decode.decode)
	d.limit, d.total = manifest.DefaultMaxBytes, maxTotalBytes
	d.clock, d.changed = clock.Real{}, func() {}
	d.open(watch.Deaf(path, log))
	d.scan()
	d.publish()
	v := d.view.Load()
	s := &session{dirs: []*directory{d}}
	s.load()
	if v.err != nil {
		problems = append(problems, v.err.Error())
	}
	for _, i := range s.ignored() {
		problems = append(problems, fmt.Sprintf("%s: %s is in %s, too: the file that pods have it from counts, and "+
			"otherwise the first by path", i.path, i.key, i.counts))
	}
	found = map[string]int{}
	for _, file := range slices.Sorted(maps.Keys(v.files)) {
		c := v.files[file]
		if c.fault != "" {
			problems = append(problems, c.fault)
		}
		for _, o := range c.objects {
			if found[o.Kind]++; o.problem != "" {
				found[o.Kind]--
				problems = append(problems, o.problem)
			}
		}
	}
	for _, path := range sets.List(decode.warned) {
		problems = append(problems, path+": others than its owner may read it, and it has Secrets; run chmod 0600 on it")
	}
	slices.Sort(problems)
	return found, problems
}
