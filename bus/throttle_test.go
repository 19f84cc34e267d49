package bus

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/test/must"
)

// endless is a client that always has something to send.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestClientSendsAtTheRateOfItsKey(t *testing.T) {
	for mayQuery, l := range map[bool]sendLimit{false: senderLimit, true: queryLimit} {
		synctest.Test(t, func(t *testing.T) {
			sent, begun := int64(l.burst+l.rate/2), time.Now()
			if mayQuery {
				sent += int64(senderLimit.burst) // until the key is looked at
			}
			_, err := io.CopyN(io.Discard, newThrottle(endless{}, func() bool { return mayQuery }, nil), sent)
			must.OK(t, err)
			want := time.Second/2 - l.spent(l.chunk) // the last read is not paused for
			if took := time.Since(begun); took < want || took > want+l.spent(2*l.chunk) {
				t.Errorf("with a key for queries %t: %d bytes took %v, want %v", mayQuery, sent, took, want)
			}
		})
	}
	stop := make(chan struct{})
	close(stop)
	if _, err := io.Copy(io.Discard, newThrottle(endless{}, func() bool { return false }, stop)); !errors.Is(err,
		net.ErrClosed) {
		t.Errorf("a connection that ends in a pause ends with %v", err)
	}
}

// What an observer sends beyond its rate waits in its own connection, and disturbs no other client.
func TestFloodOfAnObserverStaysInItsConnection(t *testing.T) {
	b := openBus(t, busDir(t))
	received := make(chan struct{}, 1<<20)
	_, err := b.Services().Subscribe(PastEvents(testNode), func(*nats.Msg) { received <- struct{}{} })
	must.OK(t, err)
	must.OK(t, b.Services().Flush())
	c, err := socketDialer(b.opts.Dir).InProcessConn()
	must.OK(t, err)
	defer c.Close()
	signInAs(t, b, c, ObserverKeyFile)
	must.OK(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
	line, n, begun := []byte("PUB journalet.node-1_example.events.read _INBOX.x 0\r\n\r\n"), 0, time.Now()
	for err = error(nil); err == nil; n++ {
		_, err = c.Write(line)
	}
	waitUntil(t, "a request arrives", func() bool { return len(received) > 0 })
	got, took := len(received), time.Since(begun)
	most := (senderLimit.burst + int(2*took.Seconds()*float64(senderLimit.rate))) / len(line)
	if got > most || n > 200*most {
		t.Errorf("%d requests arrived and %d were sent in %v, want %d at most", got, n, took, most)
	}
	if nc, _ := query(t, b); nc.Flush() != nil {
		t.Error("a client beside it gets no response")
	}
}
