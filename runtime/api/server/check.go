package server

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// probeTimeout is how long one probe is waited for. All run at once, so it bounds an answer too. It is
// well below the usual timeout of who asks (kubelet probes: 1 s; load balancers: some seconds).
const probeTimeout = 800 * time.Millisecond

// Check is one thing that must be well for the agent to be healthy.
type Check struct {
	// Name is what the answer calls it, such as "journal".
	Name string
	// Probe tells what is wrong, or nil. It should answer at once and must be safe for concurrent use
	// with everything else; it never runs twice at the same time.
	Probe func() error
}

// Result is what a check found.
type Result struct {
	Name string
	Err  error
}

// Checks is a fixed list of checks.
type Checks struct{ list []*watched }

// watched keeps one run of a probe at a time, so that a probe that hangs costs one goroutine and not
// one for each time that somebody asks.
type watched struct {
	Check
	mu    sync.Mutex
	run   *probeRun
	since time.Time
}

type probeRun struct {
	done chan struct{}
	err  error
}

// NewChecks makes a list; names should be unique.
func NewChecks(list ...Check) *Checks {
	c := &Checks{}
	for _, one := range list {
		c.list = append(c.list, &watched{Check: one})
	}
	return c
}

// Run runs all checks at once and returns their results in order, within a second.
func (c *Checks) Run() []Result {
	if c == nil {
		return nil
	}
	end := time.NewTimer(probeTimeout)
	defer end.Stop()
	runs := make([]*probeRun, len(c.list))
	for i, w := range c.list {
		runs[i] = w.start()
	}
	out := make([]Result, len(c.list))
	late := false
	for i, w := range c.list {
		out[i].Name = w.Name
		if !late {
			select {
			case <-runs[i].done:
			case <-end.C:
				late = true
			}
		}
		select {
		case <-runs[i].done:
			out[i].Err = runs[i].err
		default:
			out[i].Err = fmt.Errorf("no answer for %s", w.age())
		}
	}
	return out
}

// Err is nil if all is well, and else names everything that is not.
func (c *Checks) Err() error {
	var bad []string
	for _, r := range c.Run() {
		if r.Err != nil {
			bad = append(bad, r.Name+": "+r.Err.Error())
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return errors.New(strings.Join(bad, "; "))
}

// start begins a run, or joins the one under way.
func (w *watched) start() *probeRun {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != nil {
		return w.run
	}
	r := &probeRun{done: make(chan struct{})}
	w.run, w.since = r, time.Now()
	go func() {
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("the probe panicked: %v", p)
			}
			w.mu.Lock()
			w.run = nil
			w.mu.Unlock()
			close(r.done)
		}()
		r.err = w.Probe()
	}()
	return r
}

func (w *watched) age() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.since).Round(100 * time.Millisecond)
}
