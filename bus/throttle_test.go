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

func TestClientWithoutTheKeyForQueriesSendsAtABoundedRate(t *testing.T) {
	const sent = sendBurst + 4<<10 // half a second beyond the burst
	for free, want := range map[bool]time.Duration{false: (4<<10 - sendChunk) * sendTime, true: 0} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			_, err := io.CopyN(io.Discard, newThrottle(endless{}, func() bool { return free }, nil), sent)
			must.OK(t, err)
			if took := time.Since(begun); took != want {
				t.Errorf("with the key for queries %t: %d bytes took %v, want %v", free, sent, took, want)
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
	if most := (sendBurst + 2*int(took/sendTime)) / len(line); got > most || n > 200*most {
		t.Errorf("%d requests arrived and %d were sent in %v, want %d at most", got, n, took, most)
	}
	if nc, _ := query(t, b); nc.Flush() != nil {
		t.Error("a client beside it gets no response")
	}
}
