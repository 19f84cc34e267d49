package program

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

var errHangs = errors.New("hangs")

func shell(script string) Run {
	return Run{Does: "work", Key: "key", Program: "sh", Args: []string{"-c", script}, Timeout: time.Minute}
}

// A pipe would kill the program that prints to it when the agent is gone.
func TestTheOutputOfAProgramThatFinishesIsNoPipe(t *testing.T) {
	p := Runs{Hangs: errHangs}
	r := shell("readlink /proc/self/fd/1 >&2; echo said; exit 3")
	r.Finishes = true
	err := p.Do(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "memfd:") || !strings.Contains(err.Error(), "said (exit status 3)") {
		t.Errorf("got %v", err)
	}
	if ExitCode(err) != 3 {
		t.Errorf("its code is %d", ExitCode(err))
	}
	r = shell("head -c 1000000 /dev/zero; exit 0") // more than there is room for
	r.Finishes = true
	must.OK(t, p.Do(t.Context(), r))
}

func TestOfOneKeyOnlyOneProgramRuns(t *testing.T) {
	p := Runs{Hangs: errHangs}
	ctx, cancel := context.WithCancel(t.Context())
	r := shell("exec sleep 1000")
	r.Finishes, r.Timeout = true, time.Minute
	cancel()
	if err := p.Do(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	must.OK(t, p.Do(t.Context(), shell("true"))) // it was not started
	r.Timeout = time.Millisecond
	if err := p.Do(t.Context(), r); !errors.Is(err, errHangs) {
		t.Errorf("got %v", err)
	}
	must.OK(t, p.Do(t.Context(), shell("true"))) // it was killed
	p.Kill, p.KillTimeout = func(int) {}, time.Millisecond
	r = shell("exec sleep 0.5")
	r.Timeout = time.Millisecond
	if err := p.Do(t.Context(), r); !errors.Is(err, errHangs) || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("got %v", err)
	}
	other := shell("true")
	other.Key = "other"
	must.OK(t, p.Do(t.Context(), other))
	if err := p.Do(t.Context(), shell("true")); !errors.Is(err, errHangs) {
		t.Errorf("beside one that was killed and has not ended: %v", err)
	}
}
