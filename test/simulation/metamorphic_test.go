package simulation

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var everyCrash = flag.Bool("sim.everycrash", false, "kill the agent after every single event, not after some")

// timeDependent are the parts of a manifest whose outcome depends on order or durations.
var timeDependent = []string{"activeDeadlineSeconds", "hostPort", "resources"}

// quietPlan returns a short plan without faults: pods come, change and go, and their programs succeed.
func quietPlan(seed uint64) *Plan {
	p := PlanOf(seed)
	p.end, p.config.maxPods, p.config.url, p.config.urls = 2*time.Minute, 110, "", false
	var ops []Op
	for _, o := range p.Ops {
		depends := slices.ContainsFunc(timeDependent, func(part string) bool { return bytes.Contains(o.body, []byte(part)) })
		if (o.Kind == "write" || o.Kind == "remove") && !depends {
			o.At = o.At * p.end / (20 * time.Minute)
			ops = append(ops, o)
		}
	}
	p.Ops = ops
	return p
}

// finalOf carries out a plan without faults, and returns what each pod has become and how many events took place.
func finalOf(t *testing.T, p *Plan, o Options) (string, uint64) {
	t.Helper()
	o.Quiet = true
	r := Run(p, o)
	if r.Violation != nil {
		t.Errorf("with %+v: %s", o, r.Report())
	}
	return r.Final, r.Events
}

// TestCrashAtAnyMomentChangesNoOutcome kills the agent after each of some events of a history, in turn.
func TestCrashAtAnyMomentChangesNoOutcome(t *testing.T) {
	const some = 30
	var seeds []uint64
	for seed := range uint64(4) {
		seeds = append(seeds, seed+1)
	}
	each(seeds, func(seed uint64) {
		p := quietPlan(seed)
		want, events := finalOf(t, p, Options{})
		step := max(1, events/some)
		if *everyCrash {
			step = 1
		}
		for at := 1 + seed; at < events && !t.Failed(); at += step {
			if got, _ := finalOf(t, p, Options{CrashAfter: at}); !sameButLost(got, want) {
				t.Errorf("seed %d: a crash after %d of %d events leads to\n%s\nand without it to\n%s", seed, at, events, got, want)
			}
		}
	})
}

// sameButLost compares two outcomes. A pod whose container was lost in the first counts as the same: a crash during
// its start may do that.
func sameButLost(got, want string) bool {
	gotLines, to := strings.Split(got, "\n"), strings.Split(want, "\n")
	return slices.EqualFunc(gotLines, to, func(got, want string) bool {
		return got == want || strings.Contains(got, lost) && slices.Equal(strings.Fields(got)[:2], strings.Fields(want)[:2])
	})
}

// TestLostAndLateHintsChangeNoOutcome has the runtime's events late, doubled or lost, and one call at a time instead
// of eight.
func TestLostAndLateHintsChangeNoOutcome(t *testing.T) {
	var seeds []uint64
	for seed := range uint64(12) {
		seeds = append(seeds, seed+1)
	}
	each(seeds, func(seed uint64) {
		p := quietPlan(seed)
		want, _ := finalOf(t, p, Options{Concurrency: 8})
		for _, o := range []Options{{Concurrency: 8, UnreliableHints: true}, {Concurrency: 1},
			{Concurrency: 1, UnreliableHints: true}} {
			if got, _ := finalOf(t, p, o); got != want {
				t.Errorf("seed %d: with %s the outcome is\n%s\nand without\n%s", seed, fmt.Sprintf("%+v", o), got, want)
			}
		}
	})
}
