package bus

import (
	"io"
	"net"
	"time"
)

// Limits of what a client sends that may not send queries: an observer, or a peer that has not signed in. Observers
// send subscriptions and requests for events of the past, of some hundred bytes each. What they send beyond the limit
// waits in their own connection.
const (
	// sendBurst is a hundred requests.
	sendBurst = 16 << 10
	// sendTime is the time of one byte: 8 KiB/s, or some 60 requests, which is more than one connection's share of reads.
	sendTime = time.Second / (8 << 10)
	// sendChunk bounds one read, and so one pause.
	sendChunk = 1 << 10
)

// throttle reads what a client sends at a bounded rate.
type throttle struct {
	from io.Reader
	// unbounded reports whether the client may send as it likes. It is asked when there would be a pause.
	unbounded func() bool
	stop      <-chan struct{}

	pace pace
	free bool
}

func newThrottle(from io.Reader, unbounded func() bool, stop <-chan struct{}) *throttle {
	return &throttle{from: from, unbounded: unbounded, stop: stop, pace: pace{burst: sendBurst * sendTime}}
}

// Read reads from the client, after a pause for what was read before.
func (t *throttle) Read(b []byte) (int, error) {
	if t.free {
		return t.from.Read(b)
	}
	if pause := t.pace.pause(time.Now()); pause > 0 {
		if t.free = t.unbounded(); t.free {
			return t.from.Read(b)
		}
		select {
		case <-time.After(pause):
		case <-t.stop:
			return 0, net.ErrClosed
		}
	}
	n, err := t.from.Read(b[:min(len(b), sendChunk)])
	t.pace.spend(time.Duration(n) * sendTime)
	return n, err
}
