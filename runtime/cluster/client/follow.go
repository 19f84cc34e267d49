package client

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

const (
	// watchRetry is a Reflector's first pause after a failure. It doubles up to maxWatchRetry (a Reflector's), or to
	// maxProbe for the one watch that finds out whether the API server is back. Each is up to a fifth longer.
	watchRetry    = 800 * time.Millisecond
	maxWatchRetry = 30 * time.Second
	maxProbe      = 5 * time.Second
	watchJitter   = 0.2
	// calmFor is how long a watch lasts after which the pause begins at watchRetry again (a Reflector's).
	calmFor = 2 * time.Minute
	// returnSpread spreads the watches of many nodes when the API server is back.
	returnSpread = time.Second
)

// Following says how objects are followed.
type Following struct {
	// Reflector are the options of the Reflector but for its clock and its back-off.
	Reflector cache.ReflectorOptions
	// Probe repeats failed attempts every 5 s at least, so that a return of the API server is not noticed late.
	Probe bool
	// Returned is Contact.Returned: an answer to any request ends the pause after a failure, though not below 0.8 s. May
	// be nil.
	Returned func() <-chan struct{}
}

// Follow keeps a store equal to the objects of lw until ctx ends. It is the Run of a Reflector, whose pause of up to
// 30 s after a failure outlasts a return of the API server.
func Follow(ctx context.Context, lw cache.ListerWatcher, kind any, store cache.ReflectorStore, f Following) {
	c := pauses{returned: f.Returned}
	most := maxWatchRetry
	if f.Probe {
		most = maxProbe
	}
	backOff := wait.Backoff{
		Duration: watchRetry, Cap: most, Factor: 2, Jitter: watchJitter, Steps: int(maxWatchRetry / watchRetry),
	}
	f.Reflector.Clock, f.Reflector.Backoff = c, &backOff
	r := cache.NewReflectorWithOptions(lw, kind, store, f.Reflector)
	delay := backOff.DelayWithReset(c, calmFor)
	for ctx.Err() == nil {
		if err := r.ListAndWatchWithContext(ctx); err != nil {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
		select {
		case <-ctx.Done():
		case <-c.After(delay()):
		}
	}
}

// Follow is the function of this name; an answer to any request of this client ends the pause after a failure.
func (c *Client) Follow(ctx context.Context, lw cache.ListerWatcher, kind any, store cache.ReflectorStore,
	f Following,
) {
	f.Returned = c.Returned
	Follow(ctx, lw, kind, store, f)
}

// Returned is Returned of the client's Contact.
func (c *Client) Returned() <-chan struct{} { return c.shared.contact.Returned() }

// pauses is a clock for a Reflector, which pauses by After after a failure: After ends early when the API server is
// back.
type pauses struct {
	clock.RealClock
	returned func() <-chan struct{}
}

// After sends the time once the pause is over.
func (p pauses) After(pause time.Duration) <-chan time.Time {
	over := make(chan time.Time, 1)
	var back <-chan struct{}
	if p.returned != nil {
		back = p.returned()
	}
	least := time.Now().Add(min(pause, watchRetry))
	go func() {
		end := time.NewTimer(pause)
		defer end.Stop()
		select {
		case <-end.C:
		case <-back:
			end.Reset(max(0, time.Until(least)) + rand.N(returnSpread))
			<-end.C
		}
		over <- time.Now()
	}()
	return over
}
