package exclusive

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

func static(m *journaletv1.ResourceManagers) { m.StaticMemory = true }

// What a pod was given it keeps, whatever its containers are, and whatever others have that was given before.
func TestWhatWasGivenIsKept(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, kept := settings(static), 0
	for range 300 {
		var taken []Pod
		for range 4 {
			var list []string
			for range 1 + random.IntN(4) {
				kind := []string{"", " init", " sidecar"}[random.IntN(3)]
				list = append(list, fmt.Sprintf("%d/%d%s", random.IntN(4), 1+random.IntN(3), kind))
			}
			p, refusal := s.Admit(wants(list...), taken, nil)
			if refusal != nil {
				continue
			}
			got, ok := s.Keep(wants(list...), p, taken)
			if !ok || len(got) != len(p) {
				t.Fatalf("%v had %v beside %v, and keeps %v", list, p, taken, got)
			}
			for i := range p {
				if !proto.Equal(got[i], p[i]) {
					t.Fatalf("%v had %v, and keeps %v", list, p, got)
				}
			}
			taken = append(taken, p)
			kept++
		}
	}
	if kept < 500 {
		t.Errorf("only %d pods were admitted", kept)
	}
}

func TestWhatCannotBeHadIsNotKept(t *testing.T) {
	c := func(name, cpus string, nodes []uint32, gibs ...int64) *journaletv1.ExclusiveContainer {
		out := &journaletv1.ExclusiveContainer{Container: name, Cpus: cpus, MemoryNodes: nodes}
		for i, n := range gibs {
			out.Memory = append(out.Memory, &journaletv1.HugePages{PageBytes: int64(i) << 21, Bytes: n * gib})
		}
		return out
	}
	zero, one, both := []uint32{0}, []uint32{1}, []uint32{0, 1}
	other := Pod{c("z", "7,15", one, 1)}
	pair := Pod{c("z", "7", both, 1)}
	left := Pod{c("a", "1-2", zero, 0), c("b", "1", zero, 1)}
	overlap := Pod{c("a", "1-2", zero, 1), c("b", "1", zero, 1)}
	for name, x := range map[string]struct {
		list   []string
		had    Pod
		beside Pod
		ok     bool
	}{
		"as requested":            {[]string{"2/1"}, Pod{c("a", "1-2", zero, 1)}, other, true},
		"beside a pair":           {[]string{"2/1"}, Pod{c("a", "1-2", both, 1)}, pair, true},
		"nothing":                 {[]string{"2/1"}, nil, other, false},
		"another container's":     {[]string{"2/1"}, Pod{c("b", "1-2", zero, 1)}, other, false},
		"too few CPUs":            {[]string{"2/1"}, Pod{c("a", "1", zero, 1)}, other, false},
		"too many CPUs":           {[]string{"2/1"}, Pod{c("a", "1-3", zero, 1)}, other, false},
		"a reserved CPU":          {[]string{"2/1"}, Pod{c("a", "0-1", zero, 1)}, other, false},
		"a CPU that is not there": {[]string{"2/1"}, Pod{c("a", "1,16", zero, 1)}, other, false},
		"another pod's CPU":       {[]string{"2/1"}, Pod{c("a", "6-7", one, 1)}, other, false},
		"a node without memory":   {[]string{"2/1"}, Pod{c("a", "1-2", zero)}, other, false},
		"too much together": {
			[]string{"2/5", "1/5"}, Pod{c("a", "1-2", zero, 5), c("b", "3", zero, 5)}, other, false,
		},
		"no memory":                  {[]string{"2/1"}, Pod{c("a", "1-2", nil)}, other, false},
		"less memory":                {[]string{"2/2"}, Pod{c("a", "1-2", zero, 1)}, other, false},
		"more memory":                {[]string{"2/1"}, Pod{c("a", "1-2", zero, 2)}, other, false},
		"memory of another kind":     {[]string{"2/1"}, Pod{c("a", "1-2", zero, 1, 1)}, other, false},
		"a node that is not there":   {[]string{"2/1"}, Pod{c("a", "1-2", []uint32{2}, 1)}, other, false},
		"more than the node has":     {[]string{"2/9"}, Pod{c("a", "1-2", zero, 9)}, other, false},
		"a node of a pair":           {[]string{"2/1"}, Pod{c("a", "1-2", zero, 1)}, pair, false},
		"a pair beside a single":     {[]string{"2/1"}, Pod{c("a", "1-2", both, 1)}, other, false},
		"the CPUs of an init":        {[]string{"2/1 init", "1/1"}, left, other, true},
		"the CPUs of a sidecar":      {[]string{"2/1 sidecar", "1/1"}, overlap, other, false},
		"an init has a sidecar's":    {[]string{"2/1 sidecar", "1/1 init"}, overlap, other, false},
		"negative memory":            {[]string{"2/1 init"}, Pod{c("a", "1-2", zero, -1)}, other, false},
		"shared CPUs and its memory": {[]string{"500m/1"}, Pod{c("a", "1", zero, 1)}, other, true},
	} {
		got, ok := settings(static).Keep(wants(x.list...), x.had, []Pod{x.beside})
		if ok != x.ok || ok && len(got) != len(x.list) {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	if got, ok := settings(nil).Keep(wants("500m/1"), Pod{c("a", "1", zero, 1)}, nil); !ok || got != nil {
		t.Errorf("what is not given out is kept: %v", got)
	}
}
