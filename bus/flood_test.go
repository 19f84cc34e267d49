package bus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// apiCalls are the calls of JetStream's API for a client that may send them.
var apiCalls = []string{
	"INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.JOURNAL", "STREAM.CREATE.MINE", "STREAM.UPDATE.JOURNAL",
	"STREAM.DELETE.JOURNAL",
	"STREAM.PURGE.JOURNAL", "STREAM.MSG.GET.JOURNAL", "STREAM.MSG.DELETE.JOURNAL", "STREAM.SNAPSHOT.JOURNAL",
	"STREAM.RESTORE.JOURNAL",
	"STREAM.LEADER.STEPDOWN.JOURNAL", "STREAM.PEER.REMOVE.JOURNAL", "DIRECT.GET.JOURNAL", "DIRECT.GET.JOURNAL.node.>",
	"CONSUMER.CREATE.JOURNAL", "CONSUMER.CREATE.JOURNAL.mine", "CONSUMER.CREATE.JOURNAL.mine.node.>",
	"CONSUMER.DURABLE.CREATE.JOURNAL.mine",
	"CONSUMER.NAMES.JOURNAL", "CONSUMER.INFO.JOURNAL.x", "CONSUMER.DELETE.JOURNAL.x", "CONSUMER.PAUSE.JOURNAL.x",
	"CONSUMER.RESET.JOURNAL.x",
	"CONSUMER.UNPIN.JOURNAL.x", "CONSUMER.MSG.NEXT.JOURNAL.x", "META.LEADER.STEPDOWN", "SERVER.REMOVE",
	"ACCOUNT.PURGE.AGENT",
	"ACCOUNT.STREAM.MOVE.AGENT.JOURNAL",
}

// forbiddenSubjects are the subjects that lead to JetStream, the server or another account.
func forbiddenSubjects() []string {
	var out []string
	for _, prefix := range []string{"$JS.API.", "$JS.hub.API.", "$JS.AGENT.API.", "AGENT.$JS.API."} {
		for _, o := range apiCalls {
			if !strings.Contains(o, ">") {
				out = append(out, prefix+o)
			}
		}
	}
	return append(out,
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.KICK", "$SYS.REQ.SERVER.x.RELOAD", "$SYS.REQ.ACCOUNT.AGENT.CONNZ",
		"$SYS.REQ.ACCOUNT.AGENT.CLAIMS.UPDATE",
		"$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.CLAIMS.DELETE", "$SYS.REQ.USER.INFO", "$SYS.ACCOUNT.AGENT.CONNECT",
		"$SYS.DEBUG.SUBSCRIBERS",
		"$JSC.R.x", "$JS.ACK.JOURNAL.x.1.1.1.1.0", "$JS.FC.JOURNAL.x.y", "$JS.SNAPSHOT.ACK.JOURNAL.x", "$JS.EVENT.ADVISORY.x",
		"$KV.x.y", "$O.x.C.y",
		"$MQTT.sub.x", "$GR.x", "_GR_.x.y", "_R_.x", "$LDS.x", "$NRG.x", "_INBOX.x.y",
	)
}

// wantUnchanged fails if anything in the agent's account has changed, or appends fail.
func wantUnchanged(t *testing.T, b *Bus, last uint64) {
	t.Helper()
	streams := 0
	for range b.journal.reader.js.StreamNames(testContext(t)).Name() {
		streams++
	}
	s, err := b.journal.reader.js.Stream(testContext(t), journalStream)
	must.OK(t, err)
	if info := s.CachedInfo(); streams != 3 || info.State.Consumers != 0 || info.State.LastSeq != last ||
		info.State.FirstSeq != 1 || !info.Config.DenyDelete {
		t.Fatalf("%d streams; %+v", streams, info)
	}
	wantWhole(t, b, 1, last, false)
	appendFacts(t, b, 1)
}

func TestClientsCannotReachJetStreamServerOrOtherAccounts(t *testing.T) {
	for name, enter := range map[string]func(*testing.T, *Bus) (*nats.Conn, <-chan error){"observer": observe,
		"query": query} {
		t.Run(name, func(t *testing.T) {
			b := openBus(t, busDir(t))
			appendFacts(t, b, 3)
			nc, refused := enter(t, b)
			body := []byte(`{"stream_name":"JOURNAL","config":{"deliver_subject":"event.node-1_example.pod.p.forged",` +
				`"durable_name":"mine","deliver_policy":"all"},"seq":1,"pause_until":"2100-01-01T00:00:00Z"}`)
			for _, subject := range forbiddenSubjects() {
				// A reply, if there were one, would go to a subject of observers.
				must.OK(t, nc.PublishRequest(subject, "event.node-1_example.pod.p.reply", body))
				must.OK(t, nc.Flush())
				mustBeRefused(t, "publish on "+subject, refused)
			}
			for _, subject := range []string{"$JS.API.>", "$JS.EVENT.>", "$SYS.>", "_INBOX_.>", "_R_.>", "$JSC.>", "$NRG.>",
				"snapshot.>", "manifest.>", "node.>", "*", "*.*.*.*.*"} {
				if _, err := nc.QueueSubscribeSync(subject, "q"); err != nil {
					t.Fatal(err)
				}
				must.OK(t, nc.Flush())
				mustBeRefused(t, "subscribe to "+subject, refused)
			}
			wantUnchanged(t, b, 3)
		})
	}
}

// A requester names the subject of the reply: it must lead to the requester's own account only.
func TestReplyCannotBeSentIntoAgentsAccount(t *testing.T) {
	b := openBus(t, busDir(t))
	servePods(t, b, func(r micro.Request) { _ = r.Respond([]byte("{}")) })
	appendFacts(t, b, 3)
	nc, _ := query(t, b)
	node := messages.Token(testNode)
	for _, reply := range []string{
		"node." + node + ".pod.p.decided", "manifest." + node + ".sha256-00", "snapshot." + node + ".9.index",
		"journalet.n.pods", "$SRV.PING",
		"$JS.API.STREAM.PURGE.JOURNAL", "$JS.API.STREAM.DELETE.JOURNAL", "$JS.API.STREAM.DELETE.MANIFESTS",
		"$SYS.REQ.SERVER.PING", "$JS.ACK.x",
	} {
		for _, subject := range []string{"journalet.n.pods", "$SRV.PING", "$SRV.INFO.journalet"} {
			must.OK(t, nc.PublishRequest(subject, reply, nil))
		}
	}
	if _, err := nc.RequestWithContext(testContext(t), "journalet.n.pods", nil); err != nil {
		t.Fatal(err)
	}
	wantUnchanged(t, b, 3)
}

// Protocol lines of other kinds of peers, or for another account, end the connection.
func TestServerRefusesPeersThatAreNotClients(t *testing.T) {
	b := openBus(t, busDir(t), func(o *Options) { o.Listen = "127.0.0.1:0" })
	appendFacts(t, b, 3)
	address := strings.TrimPrefix(b.Addr(), "nats://")
	for name, say := range map[string]func(hello map[string]any) string{
		"another account": func(h map[string]any) string { h["account"] = agentAccount; return connectLine(h) },
		"a new account": func(h map[string]any) string {
			h["account"] = "X"
			h["new_account"] = true
			return connectLine(h)
		},
		"the system's":  func(h map[string]any) string { h["account"] = systemAccount; return connectLine(h) },
		"a user's name": func(h map[string]any) string { return connectLine(map[string]any{"user": "AGENT", "pass": "x"}) },
		"a route": func(h map[string]any) string {
			return connectLine(h) + "RS+ AGENT node.>\r\nRMSG AGENT node.x 1\r\nx\r\n"
		},
		"a leaf": func(h map[string]any) string {
			return connectLine(h) + "LS+ node.>\r\nLMSG node.x 1\r\nx\r\n"
		},
		"a gateway":          func(h map[string]any) string { return connectLine(h) + "A+ AGENT\r\n" },
		"publishing at once": func(h map[string]any) string { return "PUB node.x 1\r\nx\r\n" },
		"MQTT":               func(map[string]any) string { return "\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd" },
		"a websocket":        func(map[string]any) string { return "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n" },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", address)
			must.OK(t, err)
			defer c.Close()
			r := bufio.NewReader(c)
			if _, err := fmt.Fprint(c, say(helloOf(t, b, r))); err != nil {
				t.Fatal(err)
			}
			must.OK(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
			text := ""
			for err = nil; err == nil; {
				var line string
				line, err = r.ReadString('\n')
				text += line
			}
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() || !strings.Contains(text, "-ERR") {
				t.Errorf("admitted: %q, %v", text, err)
			}
		})
	}
	v := b.srv.srv
	if v.ClusterAddr() != nil || v.MonitorAddr() != nil || v.ProfilerAddr() != nil || v.NumLeafNodes() != 0 ||
		v.NumRoutes() != 0 || v.NumOutboundGateways() != 0 {
		t.Error("another port is open")
	}
	vars, err := v.Varz(nil)
	if err != nil || vars.MQTT.Port != 0 || vars.Websocket.Port != 0 || vars.LeafNode.Port != 0 ||
		vars.Gateway.Port != 0 || vars.Cluster.Port != 0 || vars.HTTPPort != 0 {
		t.Errorf("another port is open: %+v, %v", vars, err)
	}
	wantUnchanged(t, b, 3)
}

// helloOf reads the server's first line and returns an observer's CONNECT options.
func helloOf(t *testing.T, b *Bus, r *bufio.Reader) map[string]any {
	t.Helper()
	line, err := r.ReadString('\n')
	must.OK(t, err)
	return hello(t, b, ObserverKeyFile, []byte(line))
}

// hello returns the CONNECT options of a client with this key, after the server's first line.
func hello(t *testing.T, b *Bus, file string, first []byte) map[string]any {
	t.Helper()
	var info struct{ Nonce string }
	must.OK(t, json.Unmarshal(bytes.TrimPrefix(first, []byte("INFO ")), &info))
	key, err := readKey(keyPath(b.opts.Dir, file))
	must.OK(t, err)
	sig, err := key.Sign([]byte(info.Nonce))
	must.OK(t, err)
	pub, err := key.PublicKey()
	must.OK(t, err)
	return map[string]any{"nkey": pub, "sig": rawURL(sig), "verbose": false, "protocol": 1, "headers": true}
}

func connectLine(hello map[string]any) string {
	b, _ := json.Marshal(hello)
	return "CONNECT " + string(b) + "\r\n"
}

// maxFloodHeap is how much the heap may grow during a flood, minFloodAppends how many records are appended at least
// before it is over. maxFloodAppend is how long one append may take: some tens of ms on two cores that the flood keeps
// busy.
const (
	maxFloodHeap    = 640 << 20
	minFloodAppends = 3
	maxFloodAppend  = 3 * time.Second
)

// appendDuring appends records until stop is closed, and counts them. It returns the longest time of one, and the
// largest heap.
func appendDuring(t *testing.T, b *Bus, stop <-chan struct{}, n *atomic.Int64) (longest time.Duration, heap uint64) {
	for {
		select {
		case <-stop:
			return longest, heap
		default:
		}
		began := time.Now()
		must.OK(t, b.Journal().Append(fact(messages.Pod("p"), n.Load())))
		if err := b.Journal().Flush(testContext(t)); err != nil {
			t.Error(err)
			return longest, heap
		}
		longest = max(longest, time.Since(began))
		if n.Add(1)%50 == 0 {
			heap = max(heap, liveHeap())
		}
	}
}

// liveHeap returns the heap in use after the last collection, without garbage that is not collected yet.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// flood appends records while run floods the bus, and checks that appends continue and the heap is bounded.
func flood(t *testing.T, b *Bus, flood func()) {
	t.Helper()
	appendFacts(t, b, 10)
	runtime.GC()
	before := liveHeap()
	stop, done := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	var longest time.Duration
	var heap uint64
	go func() {
		defer close(done)
		longest, heap = appendDuring(t, b, stop, &n)
	}()
	flood()
	waitUntil(t, "records are appended beside the flood", func() bool { return n.Load() >= minFloodAppends })
	close(stop)
	<-done
	t.Logf("%d appends beside it, the longest %v; heap %d MiB, before %d MiB", n.Load(), longest, heap>>20, before>>20)
	strict.Within(t, "the longest append", longest, maxFloodAppend)
	if heap > before+maxFloodHeap {
		t.Errorf("the heap grew from %d to %d MiB", before>>20, heap>>20)
	}
	if _, err := b.Journal().Stalled(); err != nil {
		t.Error(err)
	}
	if r, err := b.Journal().Verify(testContext(t), nil); err != nil || !r.OK() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFloodOfConnectionsIsBounded(t *testing.T) {
	b := openBus(t, busDir(t), func(o *Options) { o.Listen = "127.0.0.1:0" })
	address := strings.TrimPrefix(b.Addr(), "nats://")
	var held []net.Conn
	most := 0
	flood(t, b, func() {
		for range 2000 { // clients that send nothing
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			held = append(held, c)
			most = max(most, b.srv.srv.NumClients())
		}
		for range 500 { // and on the socket
			c, err := socketDialer(b.opts.Dir).InProcessConn()
			if err != nil {
				break // its queue is full
			}
			held = append(held, c)
			if len(b.socket.slots) == cap(b.socket.slots) {
				break
			}
		}
	})
	if most > maxConnections {
		t.Errorf("%d clients are connected, the limit is %d", most, maxConnections)
	}
	for _, c := range held {
		c.Close()
	}
	waitUntil(t, "a client can connect after the flood", func() bool {
		nc, err := Dial(testContext(t), b.opts.Dir, nats.Timeout(time.Second))
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

func TestFloodOfSubscriptionsIsBounded(t *testing.T) {
	for file, subject := range map[string]string{ObserverKeyFile: "event.n.pod.p%d.>", QueryKeyFile: "_INBOX.%d.>"} {
		t.Run(file, func(t *testing.T) {
			b := openBus(t, busDir(t))
			const conns = 30
			var all strings.Builder
			for i := range 10 * maxSubscriptions {
				fmt.Fprintf(&all, "SUB "+subject+" %d\r\n", i, i+1)
			}
			// The server's first two subscriptions of an account's import race with each other.
			first := enterRaw(t, b, file)
			if _, err := fmt.Fprintf(first, "SUB "+subject+" 1\r\nPING\r\n", 0); err != nil {
				t.Fatal(err)
			}
			if text, err := readUntil(first, "PONG"); err != nil {
				t.Fatalf("%q, %v", text, err)
			}
			flood(t, b, func() {
				var wg sync.WaitGroup
				for range conns {
					raw := enterRaw(t, b, file)
					wg.Go(func() {
						go func() { _, _ = io.WriteString(raw, all.String()) }()
						if text, err := readUntil(raw, "aximum subscriptions exceeded"); err != nil {
							t.Errorf("not refused: %v, %q", err, text)
						}
					})
				}
				wg.Wait()
				if n := b.srv.srv.NumSubscriptions(); n > conns*(maxSubscriptions+1)*3+100 {
					t.Errorf("%d subscriptions are left", n)
				}
			})
		})
	}
}

// enterRaw returns a signed-in connection on the socket, without a client library and its buffers.
func enterRaw(t *testing.T, b *Bus, file string) net.Conn {
	t.Helper()
	raw, err := socketDialer(b.opts.Dir).InProcessConn()
	must.OK(t, err)
	t.Cleanup(func() { raw.Close() })
	signInAs(t, b, raw, file)
	if _, err := io.WriteString(raw, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := readUntil(raw, "PONG"); err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	return raw
}

// readUntil reads until the server sends word.
func readUntil(c net.Conn, word string) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		return "", err
	}
	text, buf := "", make([]byte, 4096)
	for !strings.Contains(text, word) {
		n, err := c.Read(buf)
		if err != nil {
			return text, err
		}
		text = text[max(len(text)-len(word), 0):] + string(buf[:n])
	}
	return text, nil
}

// The largest messages of many clients, all completed at the same moment, stay within what the server lets wait for the
// agent's connection.
func TestFloodOfLargeMessagesLeavesTheServicesConnected(t *testing.T) {
	b := openBus(t, busDir(t))
	release := make(chan struct{})
	// As in the query services, the bytes of requests that wait are bounded.
	servePods(t, b, func(r micro.Request) { <-release }, micro.WithEndpointPendingLimits(100, 1<<20))
	var clients []net.Conn
	for range maxSocketConns - 4 {
		clients = append(clients, enterRaw(t, b, QueryKeyFile))
	}
	all := func(write func(i int, c net.Conn) error) {
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() {
				if err := write(i, c); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	large := strings.Repeat("x", maxClientPayload)
	flood(t, b, func() {
		for range 10 {
			all(func(i int, c net.Conn) error {
				subject := []string{"journalet.n.pods", "$SRV.PING"}[i%2]
				_, err := fmt.Fprintf(c, "PUB %s %d\r\n%s", subject, len(large), large)
				return err
			})
			all(func(_ int, c net.Conn) error {
				_, err := io.WriteString(c, "\r\n")
				return err
			})
		}
	})
	close(release)
	if err := b.Services().Flush(); err != nil || b.Services().Stats().Reconnects > 0 {
		t.Fatalf("the services were disconnected: %v, %d times", err, b.Services().Stats().Reconnects)
	}
}

// A message above the limit ends its sender's connection, and a client that knows the protocol does not send it.
func TestHugeMessageEndsItsSendersConnection(t *testing.T) {
	b := openBus(t, busDir(t))
	for _, file := range []string{QueryKeyFile, ControlKeyFile, ObserverKeyFile} {
		raw := enterRaw(t, b, file)
		_, err := fmt.Fprintf(raw, "PUB journalet.n.pods %d\r\n", maxClientPayload+1)
		must.OK(t, err)
		if text, err := readUntil(raw, "Maximum Payload Violation"); err != nil {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	nc, _ := query(t, b)
	must.OK(t, nc.Flush())
	if err := nc.Publish("journalet.n.pods", make([]byte, maxClientPayload+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a message above the limit: %v", err)
	}
}

// A query client that does not read its replies is disconnected; until then a bounded part of them is pending.
func TestQueryClientsThatReadNothingAreDisconnected(t *testing.T) {
	b := openBus(t, busDir(t))
	page := make([]byte, 4<<20)
	servePods(t, b, func(r micro.Request) { _ = r.Respond(page) })
	flood(t, b, func() {
		before := b.srv.srv.NumClients()
		for range 50 {
			raw := enterRaw(t, b, QueryKeyFile)
			if _, err := io.WriteString(raw,
				"SUB _INBOX.> 1\r\n"+strings.Repeat("PUB journalet.n.pods _INBOX.x 0\r\n\r\n", 20)); err != nil {
				t.Error(err)
			}
		}
		for ctx := testContext(t); b.srv.srv.NumClients() > before; {
			select {
			case <-ctx.Done():
				t.Errorf("%d are not disconnected", b.srv.srv.NumClients()-before)
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}
