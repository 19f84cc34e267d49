package exectrace

import (
	"bytes"
	"runtime"
	"runtime/trace"
	"sync"
	"testing"
	"time"
)

// spin keeps a core busy.
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func TestRunningTimeGoesToThePartOfTheOutermostFunction(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup // its goroutine begins in a function of sync
	wg.Go(func() {
		spin(50 * time.Millisecond)
		runtime.Gosched() // records a stack in the trace
	})
	wg.Wait()
	trace.Stop()
	p, err := Read(&b, []Part{
		{"ours", []string{"github.com/journalet/journalet/test/bench/exectrace."}},
		{"library", []string{"testing.", "runtime.", "sync."}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.Groups {
		if g.Name != "ours" {
			continue
		}
		// On a busy machine it runs for less than it spins.
		if g.Running < 10*time.Millisecond {
			t.Errorf("it ran for %v", g.Running)
		}
		return
	}
	t.Fatalf("no group \"ours\" in %+v", p.Groups)
}

func TestLongestPrefixDecidesThePart(t *testing.T) {
	parts := []Part{{"agent", []string{"example.org/a/"}}, {"calls", []string{"example.org/a/calls."}}}
	for function, want := range map[string]string{
		"example.org/a/calls.Run": "calls", "example.org/a/host.Run": "agent", "example.org/b.Run": Other, "": Other,
	} {
		if got := partOf(function, parts); got != want {
			t.Errorf("%q is of %q, want %q", function, got, want)
		}
	}
}

func TestPathDecidesTheStandardLibrary(t *testing.T) {
	for function, want := range map[string]bool{
		"runtime.gopark": true, "net/http.(*conn).serve": true, "internal/poll.(*FD).Read": true, "main.main": false,
		"github.com/nats-io/nats.go.(*Conn).readLoop": false, "google.golang.org/grpc.Dial": false,
	} {
		if got := isStandard(function); got != want {
			t.Errorf("%q: %v", function, got)
		}
	}
}
