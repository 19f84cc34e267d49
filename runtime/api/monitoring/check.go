package monitoring

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/journalet/journalet/runtime/defect"
)

// probeTimeout bounds the wait for one check. All run at once, so it bounds a response too. It is well below the usual
// timeout of clients (kubelet probes: 1 s; load balancers: some seconds).
const probeTimeout = 800 * time.Millisecond

// Check is one condition of the agent's health.
type Check struct {
	// Name is its name in the response, such as "journal".
	Name string
	// Probe returns what is wrong, or nil. It should return at once and must be safe for concurrent use with everything
	// else; it never runs twice at the same time.
	Probe func() error
}

// Result is the result of a check.
type Result struct {
	Name string
	Err  error
}

// Checks is a fixed list of checks.
type Checks struct{ list []*watched }

// watched runs a probe once at a time: a probe that hangs costs one goroutine, not one for each request.
type watched struct {
	Check
	log   *slog.Logger
	mu    sync.Mutex
	run   *probeRun
	since time.Time
}

type probeRun struct {
	done chan struct{}
	err  error
}

// NewChecks returns a list of checks; names should be unique. A check that panics has failed, and its stack is logged.
func NewChecks(log *slog.Logger, list ...Check) *Checks {
	c := &Checks{}
	for _, one := range list {
		c.list = append(c.list, &watched{Check: one, log: log})
	}
	return c
}

// Run runs all checks at once and returns their results in order, within a second. A check that has not responded by
// then has failed.
func (c *Checks) Run() []Result { return c.run(0) }

// run is Run, except that a check has failed only once it has not responded for as long as is tolerated.
func (c *Checks) run(tolerated time.Duration) []Result {
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
			if age := w.age(); age >= tolerated {
				out[i].Err = fmt.Errorf("no response for %s", age.Round(100*time.Millisecond))
			}
		}
	}
	return out
}

// Err returns nil if all checks pass, else an error with all failures.
func (c *Checks) Err() error { return failures(c.Run()) }

// Within is Err for a caller that repeats it and asks whether anything hangs: a check has limit to respond, so that a
// busy machine alone fails none. Within itself returns within a second.
func (c *Checks) Within(limit time.Duration) error { return failures(c.run(limit)) }

func failures(results []Result) error {
	var bad []string
	for _, r := range results {
		if r.Err != nil {
			bad = append(bad, r.Name+": "+r.Err.Error())
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return errors.New(strings.Join(bad, "; "))
}

// start starts a run, or returns the one under way.
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
			w.mu.Lock()
			w.run = nil
			w.mu.Unlock()
			close(r.done)
		}()
		defer defect.Recover(func(stack string) {
			r.err = errors.New(defect.Message)
			w.log.Error("a check of the agent's health failed", "check", w.Name, "error", r.err, "stack", stack)
		})
		r.err = w.Probe()
	}()
	return r
}

func (w *watched) age() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.since)
}
