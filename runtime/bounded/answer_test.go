package bounded

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

func TestACallThatBlocksIsWaitedForOnceAndNotStartedAgain(t *testing.T) {
	var a Answers
	block, begun := make(chan struct{}), 0
	hang := func() (int, error) { begun++; <-block; return 7, nil }
	if _, err := Within(t.Context(), &a, "k", time.Millisecond, hang); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	for range 3 {
		if _, err := Within(t.Context(), &a, "k", time.Hour, hang); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("got %v", err)
		}
	}
	if n, err := Within(t.Context(), &a, "other", time.Hour, func() (int, error) { return 3, nil }); n != 3 || err != nil {
		t.Errorf("of another key: %d, %v", n, err)
	}
	ended := a.pending["k"].ended
	close(block)
	<-ended
	if n, err := Within(t.Context(), &a, "k", time.Hour, hang); n != 7 || err != nil || begun != 2 {
		t.Errorf("got %d, %v, begun %d times", n, err, begun)
	}
}

func TestCallsOfOneKeyComeOneAfterTheOther(t *testing.T) {
	var a Answers
	block, begun := make(chan struct{}), make(chan struct{})
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := Within(context.Background(), &a, "k", time.Hour, func() (bool, error) {
			close(begun)
			<-block
			return true, nil
		})
		first <- err
	}()
	<-begun
	go func() {
		_, err := Within(context.Background(), &a, "k", time.Hour, func() (bool, error) { return true, nil })
		second <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Within(ctx, &a, "k", time.Hour, func() (bool, error) { return true, nil }); !errors.Is(err, ctx.Err()) {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-second:
		t.Errorf("the second has ended before the first, with %v", err)
	default:
	}
	close(block)
	must.OK(t, <-first)
	must.OK(t, <-second)
}
