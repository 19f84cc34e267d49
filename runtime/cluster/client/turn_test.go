package client

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/journalet/journalet/test/must"
)

// order notes who had a turn, in the order of the turns.
type order struct {
	mu  sync.Mutex
	had []string
}

func (o *order) note(who string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.had = append(o.had, who)
}

// emptied returns a client with an empty bucket of ten a second.
func emptied(t *testing.T) *Client {
	t.Helper()
	c := &Client{limiter: newBucket(Limits{QPS: 10, Burst: 5})}
	for range 5 {
		_, waited, err := c.Turn(t.Context(), false, nil)
		if must.OK(t, err); waited {
			t.Fatal("a full bucket made a request wait")
		}
	}
	return c
}

func TestUrgentRequestsGoFirstAndDoNotStarveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := emptied(t), time.Now()
		var o order
		var all sync.WaitGroup
		wait := func(who string, urgent bool) {
			all.Go(func() {
				if _, waited, err := c.Turn(t.Context(), urgent, nil); err != nil || !waited {
					t.Errorf("%s: waited %v, %v", who, waited, err)
				}
				o.note(who)
			})
			synctest.Wait()
		}
		for i := range 2 {
			wait("other "+strconv.Itoa(i), false)
		}
		for i := range 6 {
			wait("urgent "+strconv.Itoa(i), true)
		}
		all.Wait()
		want := []string{"urgent 0", "urgent 1", "urgent 2", "urgent 3", "other 0", "urgent 4", "urgent 5", "other 1"}
		if !slices.Equal(o.had, want) {
			t.Errorf("turns %q, want %q", o.had, want)
		}
		if took := time.Since(begun).Round(10 * time.Millisecond); took != 800*time.Millisecond {
			t.Errorf("eight requests at ten a second took %s", took)
		}
	})
}

func TestTurnIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := emptied(t)
		giveUp := make(chan struct{})
		close(giveUp)
		if _, _, err := c.Turn(t.Context(), true, giveUp); !errors.Is(err, ErrGivenUp) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := c.Turn(ctx, true, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		begun := time.Now()
		_, _, err := c.Turn(t.Context(), false, nil)
		must.OK(t, err)
		if took := time.Since(begun).Round(10 * time.Millisecond); took != 100*time.Millisecond {
			t.Errorf("those who gave up took turns: %s", took)
		}
	})
}

func TestTurnIsForOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := emptied(t)
		send, _, err := c.Turn(t.Context(), false, nil)
		must.OK(t, err)
		begun := time.Now()
		if must.OK(t, c.limiter.Wait(send)); time.Since(begun) != 0 {
			t.Error("the request waits again")
		}
		must.OK(t, c.limiter.Wait(send))
		if took := time.Since(begun).Round(10 * time.Millisecond); took != 100*time.Millisecond {
			t.Errorf("the second request of a turn waits %s", took)
		}
		<-time.After(time.Hour)
		for range 5 {
			must.OK(t, c.limiter.Wait(t.Context()))
		}
		if c.limiter.TryAccept() {
			t.Error("more than the burst after a pause")
		}
	})
}

func TestNoLimitIsNoWait(t *testing.T) {
	c := &Client{limiter: newBucket(Limits{QPS: -1})}
	for range 1000 {
		if _, waited, err := c.Turn(t.Context(), false, nil); waited || err != nil {
			t.Fatal(waited, err)
		}
	}
}
