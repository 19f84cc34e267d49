package clock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/journalet/journalet/test/must"
)

func TestLockIsHeldByOneInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLock(Real{})
		must.OK(t, l.Acquire(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- l.Acquire(ctx) }()
		var order []int
		for i := range 3 {
			synctest.Wait()
			go func() {
				if l.Acquire(t.Context()) == nil {
					order = append(order, i)
					l.Release()
				}
			}()
		}
		synctest.Wait()
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		if len(order) > 0 {
			t.Errorf("%v have a lock that is held", order)
		}
		l.Release()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("the order was %v", order)
		}
		if err := l.Acquire(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a free lock with a context that has ended: %v", err)
		}
	})
}

func TestBellWakesWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBell(Real{})
		b.Ring()
		b.Ring()
		began := time.Now()
		for _, want := range []bool{true, false} { // one ring is kept
			if rang, err := b.Wait(t.Context(), time.Minute); rang != want || err != nil {
				t.Errorf("rang %v, %v", rang, err)
			}
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("both waits took %s", took)
		}
		time.AfterFunc(time.Hour, b.Ring)
		if rang, err := b.Wait(t.Context(), Forever); !rang || err != nil {
			t.Errorf("rang %v, %v", rang, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if rang, err := b.Wait(ctx, Forever); rang || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("rang %v, %v", rang, err)
		}
	})
}

func TestGroupHasALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[int]time.Duration{1: 4 * time.Second, 2: 2 * time.Second, 0: time.Second} {
			g, began := NewGroup(Real{}, limit), time.Now()
			var mu sync.Mutex
			ended := 0
			for range 4 {
				g.Go(func() {
					must.OK(t, Wait(t.Context(), Real{}, time.Second))
					mu.Lock()
					defer mu.Unlock()
					ended++
				})
			}
			g.Wait()
			if took := time.Since(began); ended != 4 || took != want {
				t.Errorf("limit %d: %d ended within %s, want 4 within %s", limit, ended, took, want)
			}
		}
	})
}
