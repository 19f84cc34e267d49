package clock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestManualClockFiresInOrder(t *testing.T) {
	c := NewManual(epoch)
	var fired []string
	note := func(s string) func() {
		return func() { fired = append(fired, s+"@"+c.Now().Sub(epoch).String()) }
	}
	c.AfterFunc(2*time.Second, note("b"))
	c.AfterFunc(time.Second, func() { note("a")(); c.AfterFunc(time.Second, note("c")) })
	stopped := c.AfterFunc(time.Second, note("never"))
	if !stopped() || stopped() {
		t.Error("stop must be true once")
	}
	c.Advance(time.Minute)
	if got := strings.Join(fired, " "); got != "a@1s b@2s c@2s" {
		t.Errorf("fired %q", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.WaitPending(ctx, 1); err == nil {
		t.Error("WaitPending returned with no timer armed")
	}
}

func TestWaitEndsByTheClockOrWithItsContext(t *testing.T) {
	c := NewManual(epoch)
	ctx, cancel := context.WithCancel(t.Context())
	for _, x := range []struct {
		end  func()
		want error
	}{
		{func() { c.Advance(time.Minute) }, nil},
		{cancel, context.Canceled},
	} {
		ended := make(chan error, 1)
		go func() { ended <- Wait(ctx, c, time.Minute) }()
		must.OK(t, c.WaitPending(t.Context(), 1))
		x.end()
		if err := <-ended; !errors.Is(err, x.want) {
			t.Errorf("Wait returned %v, want %v", err, x.want)
		}
	}
	if err := Wait(ctx, c, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a context that has ended returned %v", err)
	}
}
