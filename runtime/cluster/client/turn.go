package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// othersShare is how many turns urgent requests have for each one of the others, while both wait.
const othersShare = 4

// bucket is a token bucket that serves urgent requests before the others, each class first come, first served. A burst
// of pods may wait seconds for its turns; what ends a pod, or makes it ready, does not wait behind it.
type bucket struct {
	qps   float64
	burst float64

	mu     sync.Mutex
	tokens float64
	filled time.Time // when tokens was computed
	urgent []*turn
	others []*turn
	row    int // urgent turns in a row while others waited
	armed  bool
	// waited is reported how long a request waited for its turn; it may be nil.
	waited func(verb string, took time.Duration)
}

var _ flowcontrol.RateLimiter = (*bucket)(nil)

// turn is a request that waits; granted is closed when it may be sent.
type turn struct{ granted chan struct{} }

// newBucket returns a full bucket, nil for no limit.
func newBucket(l Limits) *bucket {
	if l.QPS < 0 {
		return nil
	}
	if l.QPS == 0 {
		l.QPS = rest.DefaultQPS
	}
	if l.Burst == 0 {
		l.Burst = rest.DefaultBurst
	}
	return &bucket{qps: float64(l.QPS), burst: float64(l.Burst), tokens: float64(l.Burst), filled: time.Now()}
}

// taken marks a context whose next request has had its turn.
type taken struct{}

// ErrGivenUp is returned for a turn that was given up.
var ErrGivenUp = errors.New("the turn of a request was given up")

// Turn waits for the turn of one request, an urgent one before the others, until ctx ends or giveUp is closed, which
// may be nil. It returns the context to send it with, and whether it had to wait: what the request says may be out of
// date then.
func (c *Client) Turn(ctx context.Context, urgent bool, giveUp <-chan struct{}) (
	send context.Context, waited bool, err error,
) {
	if c.limiter == nil {
		return ctx, false, nil
	}
	defer c.limiter.measure(http.MethodPatch, time.Now()) // who needs an order of turns patches a status
	if waited, err = c.limiter.wait(ctx, urgent, giveUp); err != nil {
		return nil, waited, err
	}
	left := new(atomic.Bool)
	left.Store(true)
	return context.WithValue(ctx, taken{}, left), waited, nil
}

// measure reports how long a request has waited since begun.
func (b *bucket) measure(verb string, begun time.Time) {
	if b.waited != nil {
		b.waited(verb, time.Since(begun))
	}
}

// Wait waits for the turn of a request that is not urgent, unless ctx is one of Turn that was not used.
func (b *bucket) Wait(ctx context.Context) error {
	if left, ok := ctx.Value(taken{}).(*atomic.Bool); ok && left.Swap(false) {
		return nil
	}
	defer b.measure(verbOf(ctx), time.Now())
	_, err := b.wait(ctx, false, nil)
	return err
}

func (b *bucket) wait(ctx context.Context, urgent bool, giveUp <-chan struct{}) (waited bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	b.mu.Lock()
	if b.fill(); b.tokens >= 1 && len(b.urgent)+len(b.others) == 0 {
		b.tokens--
		b.mu.Unlock()
		return false, nil
	}
	t := &turn{make(chan struct{})}
	if urgent {
		b.urgent = append(b.urgent, t)
	} else {
		b.others = append(b.others, t)
	}
	b.arm()
	b.mu.Unlock()
	select {
	case <-t.granted:
		return true, nil
	case <-giveUp:
		err = ErrGivenUp
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.leave(t)
	return true, err
}

// leave gives up a turn. One that was granted meanwhile is another's.
func (b *bucket) leave(t *turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-t.granted:
		b.tokens++
		b.grant()
		return
	default:
	}
	is := func(other *turn) bool { return other == t }
	b.urgent, b.others = slices.DeleteFunc(b.urgent, is), slices.DeleteFunc(b.others, is)
}

// fill adds the tokens of the time that has passed. b.mu is held.
func (b *bucket) fill() {
	now := time.Now()
	b.tokens = min(b.burst, b.tokens+now.Sub(b.filled).Seconds()*b.qps)
	b.filled = now
}

// arm calls grant when the next token is there. b.mu is held.
func (b *bucket) arm() {
	if b.armed || len(b.urgent)+len(b.others) == 0 {
		return
	}
	b.armed = true
	wait := time.Duration(max(0, 1-b.tokens) / b.qps * float64(time.Second))
	time.AfterFunc(wait+time.Microsecond, func() { // rounding must not leave a part of a token to wait for
		b.mu.Lock()
		defer b.mu.Unlock()
		b.armed = false
		b.grant()
	})
}

// grant gives the available tokens to waiting requests. The caller holds b.mu.
func (b *bucket) grant() {
	b.fill()
	for ; b.tokens >= 1 && len(b.urgent)+len(b.others) > 0; b.tokens-- {
		from := &b.urgent
		if len(b.urgent) == 0 || b.row >= othersShare && len(b.others) > 0 {
			from = &b.others
		}
		if b.row++; from == &b.others {
			b.row = 0
		}
		close((*from)[0].granted)
		*from = (*from)[1:]
	}
	b.arm()
}

// TryAccept takes a token if one is available and no request waits for it.
func (b *bucket) TryAccept() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fill(); b.tokens < 1 || len(b.urgent)+len(b.others) > 0 {
		return false
	}
	b.tokens--
	return true
}

// Accept waits for a turn.
func (b *bucket) Accept() { _ = b.Wait(context.Background()) } // it has no end, so no error

// Stop does nothing: the bucket has no goroutine.
func (b *bucket) Stop() {}

// QPS returns the tokens a second.
func (b *bucket) QPS() float32 { return float32(b.qps) }
