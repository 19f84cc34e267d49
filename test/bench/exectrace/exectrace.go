package exectrace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/exp/trace"
)

// Part is a part of a program, by the prefixes of its functions' names.
type Part struct {
	Name     string
	Prefixes []string
}

// Group sums up the goroutines of a part.
type Group struct {
	Name       string
	Goroutines int
	Running    time.Duration // on a core
	Runnable   time.Duration // waiting for one
	Syscall    time.Duration // in a system call, on a core or waiting there
}

// Profile is the summary of a trace.
type Profile struct {
	Span   time.Duration
	Groups []Group // by running time, longest first
	// Collections counts the garbage collections. Stopped is the total time of all stops of the world.
	Collections int
	Stopped     time.Duration
}

// Other is the group of goroutines that no part claims.
const Other = "other"

// goroutine is the state of one goroutine of the trace.
type goroutine struct {
	root  string
	state trace.GoState
	since trace.Time
	spent map[trace.GoState]time.Duration
}

// Read sums up a trace.
func Read(r io.Reader, parts []Part) (*Profile, error) {
	in, err := trace.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("exectrace: open the trace: %w", err)
	}
	all := map[trace.GoID]*goroutine{}
	stops := map[trace.ResourceID]trace.Time{}
	p := &Profile{}
	var first, last trace.Time
	for {
		ev, err := in.ReadEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("exectrace: read the trace: %w", err)
		}
		if first == 0 {
			first = ev.Time()
		}
		last = ev.Time()
		switch ev.Kind() {
		case trace.EventStateTransition:
			if st := ev.StateTransition(); st.Resource.Kind == trace.ResourceGoroutine {
				transition(all, ev.Time(), st)
			}
		case trace.EventRangeBegin:
			if r := ev.Range(); r.Name == "GC concurrent mark phase" {
				p.Collections++
			} else if strings.HasPrefix(r.Name, "stop-the-world") {
				stops[r.Scope] = ev.Time()
			}
		case trace.EventRangeEnd:
			if r := ev.Range(); strings.HasPrefix(r.Name, "stop-the-world") {
				if begin, ok := stops[r.Scope]; ok {
					p.Stopped += ev.Time().Sub(begin)
				}
				delete(stops, r.Scope)
			}
		}
	}
	p.Span = last.Sub(first)
	p.sum(all, last, parts)
	return p, nil
}

func transition(all map[trace.GoID]*goroutine, now trace.Time, st trace.StateTransition) {
	g := all[st.Resource.Goroutine()]
	if g == nil {
		g = &goroutine{spent: map[trace.GoState]time.Duration{}, since: now}
		all[st.Resource.Goroutine()] = g
	}
	if g.root == "" || isStandard(g.root) {
		if root := rootOf(st.Stack); root != "" {
			g.root = root
		}
	}
	g.until(now)
	_, g.state = st.Goroutine()
}

// until adds the time since the last transition to the goroutine's state.
func (g *goroutine) until(now trace.Time) {
	g.spent[g.state] += now.Sub(g.since)
	g.since = now
}

// rootOf returns the outermost function of a stack outside the standard library; without one, the outermost.
func rootOf(s trace.Stack) (root string) {
	for f := range s.Frames() {
		if root == "" || !isStandard(f.Func) || isStandard(root) {
			root = f.Func
		}
	}
	return root
}

// isStandard reports whether a function is the standard library's: the first part of its path has no dot, or there is
// no path.
func isStandard(function string) bool {
	first, _, isPath := strings.Cut(function, "/")
	if isPath {
		return !strings.Contains(first, ".")
	}
	return !strings.HasPrefix(function, "main.")
}

func (p *Profile) sum(all map[trace.GoID]*goroutine, last trace.Time, parts []Part) {
	groups := map[string]*Group{}
	for _, g := range all {
		g.until(last)
		name := partOf(g.root, parts)
		to := groups[name]
		if to == nil {
			to = &Group{Name: name}
			groups[name] = to
		}
		to.Goroutines++
		to.Running += g.spent[trace.GoRunning]
		to.Runnable += g.spent[trace.GoRunnable]
		to.Syscall += g.spent[trace.GoSyscall]
	}
	for _, g := range groups {
		p.Groups = append(p.Groups, *g)
	}
	slices.SortFunc(p.Groups, func(a, b Group) int {
		if a.Running != b.Running {
			return int(b.Running - a.Running)
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// partOf returns the part with the longest prefix of a function's name.
func partOf(function string, parts []Part) string {
	name, longest := Other, 0
	for _, p := range parts {
		for _, prefix := range p.Prefixes {
			if len(prefix) > longest && strings.HasPrefix(function, prefix) {
				name, longest = p.Name, len(prefix)
			}
		}
	}
	return name
}
