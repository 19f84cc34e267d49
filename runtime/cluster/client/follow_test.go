package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func TestAnswerEndsTheWaitForTheServer(t *testing.T) {
	for _, c := range []struct {
		name             string
		pause, after     time.Duration
		answered, failed bool
		least, most      time.Duration
	}{
		{name: "nothing", pause: 30 * time.Second, least: 30 * time.Second, most: 30 * time.Second},
		{name: "an answer after failures", pause: 30 * time.Second, after: 5 * time.Second, failed: true, answered: true,
			least: 5 * time.Second, most: 6 * time.Second},
		{name: "an answer at once", pause: 30 * time.Second, failed: true, answered: true, least: watchRetry,
			most: watchRetry + returnSpread},
		{name: "an answer among answers", pause: 30 * time.Second, after: time.Second, answered: true,
			least: 30 * time.Second, most: 30 * time.Second},
		{name: "a failure", pause: 30 * time.Second, after: time.Second, failed: true, least: 30 * time.Second,
			most: 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				contact, begun := NewContact(nil, time.Now), time.Now()
				if c.failed {
					contact.Failed(errors.New("refused"))
				}
				over := pauses{returned: contact.Returned}.After(c.pause)
				<-time.After(c.after)
				if c.answered {
					contact.Answered()
				}
				<-over
				if now := time.Now(); now.Before(begun.Add(c.least)) || now.After(begun.Add(c.most)) {
					t.Errorf("paused for %s, want %s to %s", now.Sub(begun), c.least, c.most)
				}
			})
		})
	}
}

func TestWithoutAContactThePauseIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Contact
		begun := time.Now()
		<-pauses{returned: none.Returned}.After(time.Minute)
		<-pauses{}.After(time.Minute)
		if took := time.Since(begun); took != 2*time.Minute {
			t.Errorf("paused for %s", took)
		}
	})
}

func TestEachReturnIsAnnounced(t *testing.T) {
	c := NewContact(nil, time.Now)
	for range 2 {
		back := c.Returned()
		c.Answered()
		select {
		case <-back:
			t.Fatal("an answer without a failure is a return")
		default:
		}
		c.Failed(errors.New("refused"))
		c.Answered()
		<-back
	}
}

// failing is a server that fails each list; attempts are the times of the requests. client-go does not log its error:
// logging would compare the time with the time outside of a bubble.
type failing struct{ attempts []time.Time }

func (f *failing) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	f.attempts = append(f.attempts, time.Now())
	return nil, apierrors.NewResourceExpired("gone")
}

func (f *failing) watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("refused")
}

func TestPausesBetweenAttemptsAreBounded(t *testing.T) {
	for probe, most := range map[bool]time.Duration{true: 6 * time.Second, false: 36 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var f failing
			lw := &cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch}
			Follow(ctx, lw, &corev1.Pod{}, cache.NewStore(cache.MetaNamespaceKeyFunc), Following{Probe: probe})
			<-time.After(time.Minute) // the last pause ends
			var longest time.Duration
			for i := 1; i < len(f.attempts); i++ {
				longest = max(longest, f.attempts[i].Sub(f.attempts[i-1]))
			}
			if longest > most || longest < most/2 {
				t.Errorf("probe %v: %d attempts in ten minutes, the longest pause %s, want %s", probe, len(f.attempts), longest,
					most)
			}
		})
	}
}
