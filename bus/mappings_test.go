package bus

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/journalet/journalet/test/must"
)

const (
	longReplies = 20_000
	// longReply is about the longest reply subject that the server takes.
	longReply = 3900
	// maxMappingsHeap is a fourth of what the reply subjects alone hold.
	maxMappingsHeap = longReplies * longReply / 4
)

// The server keeps a mapping for each request until its response: a client that sends many with long reply subjects
// must not make it keep them all, whether it reads the responses or subscribes to none.
func TestReplySubjectsOfManyRequestsAreNotKept(t *testing.T) {
	for name, subscribe := range map[string]string{"no subscription": "", "subscribed": "SUB _INBOX.> 1\r\n"} {
		t.Run(name, func(t *testing.T) {
			b := openBus(t, busDir(t))
			servePods(t, b, func(r micro.Request) { _ = r.Respond([]byte("{}")) })
			raw, err := b.srv.srv.InProcessConn() // a door would let through 1 MiB a second
			must.OK(t, err)
			t.Cleanup(func() { raw.Close() })
			signInAs(t, b, raw, QueryKeyFile)
			processed := make(chan error, 1)
			runtime.GC()
			before := liveHeap()
			w := bufio.NewWriter(raw)
			fmt.Fprint(w, subscribe)
			go func() {
				_, err := readUntil(raw, "PONG")
				processed <- err
				_, _ = io.Copy(io.Discard, raw)
			}()
			pad := strings.Repeat("r", longReply)
			for i := range longReplies {
				fmt.Fprintf(w, "PUB journalet.n.pods _INBOX.%s.%d 0\r\n\r\n", pad, i)
			}
			fmt.Fprint(w, "PING\r\n")
			must.OK(t, w.Flush())
			must.OK(t, <-processed)
			// The service has responded to all of them once this later request is served.
			nc, _ := query(t, b)
			if _, err := nc.RequestWithContext(testContext(t), "journalet.n.pods", nil); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			after := liveHeap()
			t.Logf("%d requests: heap %d MiB, before %d MiB", longReplies, after>>20, before>>20)
			if after > before+maxMappingsHeap {
				t.Errorf("the heap grew from %d to %d MiB", before>>20, after>>20)
			}
		})
	}
}
