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

// Group is what the goroutines of a part did.
type Group struct {
	Name       string
	Goroutines int
	Running    time.Duration // on a core
	Runnable   time.Duration // wanting one
	Syscall    time.Duration // in a system call, on a core or waiting there
}

// Profile is a trace summed up.
type Profile struct {
	Span   time.Duration
	Groups []Group // the one that ran for longest first
	// Collections are the garbage collections, Stopped is how long the world was stopped in all, for whatever reason.
	Collections int
	Stopped     time.Duration
}

// Other is the group of goroutines that no part claims.
const Other = "other"

// goroutine is one of the trace.
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

// until ends what the goroutine did so far.
func (g *goroutine) until(now trace.Time) {
	g.spent[g.state] += now.Sub(g.since)
	g.since = now
}

// rootOf is the outermost function of a stack that says what the goroutine is for.
func rootOf(s trace.Stack) (root string) {
	for f := range s.Frames() {
		if root == "" || !isStandard(f.Func) || isStandard(root) {
			root = f.Func
		}
	}
	return root
}

// isStandard tells whether a function is the standard library's: the first part of its path has no dot before the last
// slash, or it has no slash at all.
func isStandard(function string) bool {
	path, _, _ := strings.Cut(function, "/")
	return !strings.Contains(function, "/") && !strings.HasPrefix(function, "main.") || strings.Contains(function, "/") && !strings.Contains(path, ".")
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

// partOf finds the part with the longest prefix of a function's name.
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
