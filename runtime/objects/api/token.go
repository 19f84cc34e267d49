package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/objects"
)

const (
	// maxAge is how old a token gets at most, and maxEarlier bounds by how much it is renewed earlier, at random, so that
	// not all pods of a node renew at once. Those of the kubelet.
	maxAge     = 24 * time.Hour
	maxEarlier = 10 * time.Second
	// firstRenewal and lastRenewal bound the wait after a request that failed; it doubles between the two.
	firstRenewal = time.Second
	lastRenewal  = 30 * time.Second
	// wallCheck is how often a wait is compared with the wall clock: timers do not run while a machine sleeps.
	wallCheck = time.Minute
	// maxClockSkew is by how much the wall clock may be behind the beginning of a wait. API servers and others that check
	// tokens permit as much or less: the leeway of go-jose is one minute.
	maxClockSkew = time.Minute
	// maxSelectorBytes bounds the selector of a token as JSON.
	maxSelectorBytes = 64 << 10
	// minLifetime is the lifetime of a token whose answer has no lifetime: the API server's lower bound.
	minLifetime = 10 * time.Minute
)

// renew requests the token of a pod, and another one before it ends, until ctx ends.
func (b *Backing) renew(ctx context.Context, e *entry) {
	d := &delays{began: time.Now(), lag: lagDelay, next: firstRenewal}
	var until time.Time // of the token in use
	for {
		data, lifetime, err := b.request(ctx, e.key)
		if ctx.Err() != nil {
			return
		}
		wait, lagging := d.lagging(err)
		valid := time.Now().Before(until)
		switch {
		case err == nil:
			b.answered()
			d.next = firstRenewal
			until = time.Now().Add(lifetime)
			b.set(e, objects.Object{State: present, Data: data}, until)
			b.sleep(ctx, renewAfter(lifetime, rand.N(maxEarlier)))
			continue
		case lagging && until.IsZero():
		case valid:
			b.opts.Log.Warn("a service account token is not renewed; the old one is still valid", "namespace",
				e.key.Namespace, "serviceAccount", e.key.Name, "pod", e.key.Pod.Name, "error", text(err))
			wait = min(d.next, lastRenewal)
		case answer(err):
			b.answered()
			b.set(e, objects.Object{State: unreadable, Message: failure(until, err)}, time.Time{})
			wait = d.next
		default:
			b.unanswered(e, text(err))
			wait = d.next
		}
		if !lagging {
			d.next = min(2*d.next, lastRenewal)
		}
		b.wait(ctx, wait)
	}
}

// failure returns the kubelet's words for a token that cannot be had.
func failure(until time.Time, err error) string {
	if until.IsZero() {
		return "failed to fetch token: " + text(err)
	}
	return "token expired and refresh failed: " + text(err)
}

// renewAfter returns for how long a token of this lifetime is used.
func renewAfter(lifetime, earlier time.Duration) time.Duration {
	return min(max(lifetime*8/10-earlier, lifetime/2), maxAge-earlier)
}

// sleep waits for as long as the machine runs, and for no longer than the wall clock shows. It also ends once that was
// set back to before the wait began: a token that was issued then is of the future, and nobody takes it.
func (b *Backing) sleep(ctx context.Context, wait time.Duration) {
	begun, issued := time.Now(), b.opts.Wall()
	for ctx.Err() == nil {
		passed := b.opts.Wall().Sub(issued)
		left := wait - max(time.Since(begun), passed)
		if left <= 0 || passed < -maxClockSkew {
			return
		}
		t := time.NewTimer(min(left, wallCheck))
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// request requests a token, and returns for how long it is valid from now.
func (b *Backing) request(ctx context.Context, k objects.Key) ([]byte, time.Duration, error) {
	var selector references.TokenSelector
	if err := bounded.JSON([]byte(k.Selector), maxSelectorBytes, &selector); err != nil {
		return nil, 0, fmt.Errorf("the selector of the token: %w", err)
	}
	out, err := client.RequestToken(ctx, b.opts.Client, types.NamespacedName{Namespace: k.Namespace, Name: k.Pod.Name},
		types.UID(k.Pod.UID), k.Name, selector.Audience, &selector.ExpirationSeconds)
	if err != nil {
		return nil, 0, err
	}
	lifetime := minLifetime
	if s := out.Spec.ExpirationSeconds; s != nil && *s > 0 {
		lifetime = time.Duration(*s) * time.Second
	}
	return []byte(out.Status.Token), lifetime, nil
}
