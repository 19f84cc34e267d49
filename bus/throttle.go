package bus

import (
	"io"
	"net"
	"time"
)

// What a client sends faster than its limit waits in its own connection. So all clients together never have more in
// flight to the agent's connection for services than the server lets wait for it (maxPending): a partial message and a
// burst each, 17 MiB of 128 connections.
var (
	// senderLimit is for observers, and for peers that have not signed in. Observers send subscriptions and requests for
	// events of the past, of some hundred bytes each: a hundred requests at once, then some 60 a second, which is more
	// than one connection's share of reads.
	senderLimit = sendLimit{burst: 16 << 10, rate: 8 << 10, chunk: 1 << 10}
	// queryLimit is for clients with a key for queries: some thousand requests a second, or sixteen of the largest.
	queryLimit = sendLimit{burst: 64 << 10, rate: 1 << 20, chunk: 16 << 10}
)

// sendLimit bounds what one connection sends.
type sendLimit struct {
	burst int // bytes at once
	rate  int // bytes per second
	chunk int // bytes of one read, and so of one pause
}

// spent returns the time of n bytes.
func (l sendLimit) spent(n int) time.Duration {
	return time.Duration(n) * time.Second / time.Duration(l.rate)
}

// throttle reads what a client sends at a bounded rate.
type throttle struct {
	from io.Reader
	// mayQuery reports whether the client has a key for queries. It is called when there would be a pause.
	mayQuery func() bool
	stop     <-chan struct{}

	limit sendLimit
	pace  pace
}

func newThrottle(from io.Reader, mayQuery func() bool, stop <-chan struct{}) *throttle {
	t := &throttle{from: from, mayQuery: mayQuery, stop: stop}
	t.use(senderLimit)
	return t
}

// use begins a limit.
func (t *throttle) use(l sendLimit) { t.limit, t.pace = l, pace{burst: l.spent(l.burst)} }

// Read reads from the client, after a pause for what was read before.
func (t *throttle) Read(b []byte) (int, error) {
	pause := t.pace.pause(time.Now())
	if pause > 0 && t.limit != queryLimit && t.mayQuery() {
		t.use(queryLimit)
		pause = t.pace.pause(time.Now())
	}
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-t.stop:
			return 0, net.ErrClosed
		}
	}
	n, err := t.from.Read(b[:min(len(b), t.limit.chunk)])
	t.pace.spend(t.limit.spent(n))
	return n, err
}
