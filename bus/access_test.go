package bus

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nkeys"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// observe connects as an observer; the channel receives what the server refuses.
func observe(t *testing.T, b *Bus) (*nats.Conn, <-chan error) {
	t.Helper()
	return dialAs(t, b, Listen)
}

// query connects as a query client.
func query(t *testing.T, b *Bus) (*nats.Conn, <-chan error) {
	t.Helper()
	return dialAs(t, b, Dial)
}

func dialAs(t *testing.T, b *Bus, dial func(context.Context, string, ...nats.Option) (*nats.Conn, error)) (*nats.Conn,
	<-chan error) {
	t.Helper()
	refused := make(chan error, 16)
	nc, err := dial(testContext(t), b.opts.Dir,
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	must.OK(t, err)
	t.Cleanup(nc.Close)
	return nc, refused
}

func mustBeRefused(t *testing.T, what string, refused <-chan error) {
	t.Helper()
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) &&
			!strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
			t.Errorf("%s: refused with %v", what, err)
		}
	case <-testContext(t).Done():
		t.Errorf("%s: not refused", what)
	}
}

func TestObserversCannotWriteOrReachTheStreams(t *testing.T) {
	b := openBus(t, busDir(t))
	appendFacts(t, b, 1)
	t.Run("observer", func(t *testing.T) {
		nc, refused := observe(t, b)
		mustBeDenied(t, nc, refused, "journalet.n.info", "journalet.>")
		mustBeDenied(t, nc, refused, "$SRV.PING", "observer.>")
		mustBeDenied(t, nc, refused, "reply._INBOX.x", "reply.>")
		mustBeDenied(t, nc, refused, "journalet.n.records.read", "journalet.*.events.read")
	})
	t.Run("query", func(t *testing.T) {
		nc, refused := query(t, b)
		mustBeDenied(t, nc, refused, "event.x", "event.>")
	})
	if b.Journal().Last() != 1 {
		t.Fatalf("the journal holds %d records", b.Journal().Last())
	}
	if r, err := b.Journal().Verify(testContext(t), nil); err != nil || !r.OK() {
		t.Fatalf("verify: %+v, %v", r, err)
	}
}

// mustBeDenied publishes and subscribes on subjects that only the agent may use, and on one more of each kind.
func mustBeDenied(t *testing.T, nc *nats.Conn, refused <-chan error, write, listen string) {
	t.Helper()
	node := messages.Token(testNode)
	for _, subject := range []string{
		write,
		"node." + node + ".pod.p.decided",
		"event." + node + ".pod.p.pod_observed",
		"manifest." + node + ".sha256-00",
		"snapshot." + node + ".1.index",
		"$JS.API.INFO",
		"$JS.API.STREAM.PURGE.JOURNAL",
		"$JS.API.DIRECT.GET.JOURNAL",
		"$JS.ACK.JOURNAL.x",
		"$SYS.REQ.SERVER.PING",
		"_INBOX.someone",
	} {
		must.OK(t, nc.Publish(subject, []byte("forged")))
		must.OK(t, nc.Flush())
		mustBeRefused(t, "publish on "+subject, refused)
	}
	for _, subject := range []string{listen, "node.>", "manifest.>", "snapshot.>", ">", "*.>", "$JS.>", "$SYS.>",
		"journalet.>", "_R_.>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		must.OK(t, nc.Flush())
		mustBeRefused(t, "subscribe to "+subject, refused)
	}
}

func TestServerRejectsClientWithoutKnownKey(t *testing.T) {
	b := openBus(t, busDir(t))
	key, err := nkeys.CreateUser()
	must.OK(t, err)
	sign, err := signWith(key)
	must.OK(t, err)
	for name, opts := range map[string][]nats.Option{"another key": {sign}, "no key": nil} {
		nc, err := nats.Connect("", append(opts, nats.InProcessServer(socketDialer(b.opts.Dir)))...)
		if err == nil {
			nc.Close()
			t.Errorf("%s: admitted", name)
		}
	}
}

func TestObserversReceiveEventsOnlyWhileSubscribed(t *testing.T) {
	b := openBus(t, busDir(t))
	o := b.Observers()
	if o.Connected() {
		t.Fatal("connected without an observer")
	}
	nc, _ := observe(t, b)
	sub, err := nc.SubscribeSync(messages.EventFilter(testNode))
	must.OK(t, err)
	must.OK(t, nc.Flush())
	if !o.Connected() {
		t.Fatal("not connected with an observer")
	}
	j := b.Journal()
	must.OK(t, j.Append(fact(messages.Pod("p"), 7)))
	must.OK(t, j.Append(step(messages.Source("file"), 1, 0)))
	must.OK(t, j.Flush(testContext(t)))
	recs, err := j.Tail(testContext(t), "", 2)
	must.OK(t, err)
	for _, rec := range recs {
		o.Publish(rec)
	}
	want := append(messages.Flatten(testNode, recs[0]), messages.Flatten(testNode, recs[1])...)
	for i, subject := range []string{"pod.p.pod_observed", "source.file.pod_forgotten", "source.file.source_synced"} {
		m, err := sub.NextMsgWithContext(testContext(t))
		must.OK(t, err)
		var got messages.Flat
		if err := json.Unmarshal(m.Data, &got); err != nil {
			t.Fatalf("%s: %v", m.Data, err)
		}
		if m.Subject != "event.node-1_example."+subject || m.Subject != want[i].Subject() || got.Event != want[i].Event ||
			got.ID != want[i].ID {
			t.Fatalf("event %d came on %s as %s", i, m.Subject, m.Data)
		}
	}
	if want[2].ID != "1.1.source/file.1" || want[2].Cause != 1 || want[0].Seq != 1 ||
		!strings.HasPrefix(want[0].Time, "2023-11-14T22:13:27") {
		t.Fatalf("%+v", want)
	}
	nc.Close()
	waitUntil(t, "no observer is connected", func() bool { return !o.Connected() })
}

func TestSlowObserverIsDisconnectedAndDelaysNoAppend(t *testing.T) {
	b := openBus(t, busDir(t), func(o *Options) { o.Sync = SyncPolicy{Interval: maxSyncInterval} })
	slow, err := socketDialer(b.opts.Dir).InProcessConn()
	must.OK(t, err)
	defer slow.Close()
	signInAs(t, b, slow, ObserverKeyFile)
	if _, err := slow.Write([]byte("SUB event.> 1\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the subscription", func() bool { return b.Observers().agent.SubscriptionInterest("event.x") })
	rec := fact(messages.Pod("p"), 0)
	rec.GetFact().GetPodObserved().Uid = strings.Repeat("x", 256<<10)
	var longest time.Duration
	beside := 0
	waitUntil(t, "the slow observer is disconnected", func() bool {
		stuck := b.Observers().sent.Load() > 8 // more than a socket takes
		begin := time.Now()
		b.Observers().Publish(rec)
		must.OK(t, b.Journal().Append(fact(messages.Pod("q"), 0)))
		must.OK(t, b.Journal().Flush(testContext(t)))
		longest = max(longest, time.Since(begin))
		if stuck && b.Observers().Connected() {
			beside++
		}
		return !b.Observers().Connected()
	})
	strict.Within(t, "the longest append", longest, observerWriteDeadline/2)
	if beside < 2 { // an append that waits for the observer ends with the observer's connection
		t.Errorf("%d records were appended while an observer did not read", beside)
	}
}

// signInAs sends the NATS protocol by hand, up to CONNECT.
func signInAs(t *testing.T, b *Bus, c net.Conn, file string) {
	t.Helper()
	buf := make([]byte, 8192)
	n, err := c.Read(buf)
	must.OK(t, err)
	if _, err := c.Write([]byte(connectLine(hello(t, b, file, buf[:n])))); err != nil {
		t.Fatal(err)
	}
}

func TestQueryClientsFindAndCallServices(t *testing.T) {
	b := openBus(t, busDir(t))
	servePods(t, b, func(r micro.Request) { _ = r.Respond([]byte("two pods")) })
	nc, _ := query(t, b)
	m, err := nc.RequestWithContext(testContext(t), "journalet.n.pods", nil)
	if err != nil || string(m.Data) != "two pods" {
		t.Fatalf("%v, %v", m, err)
	}
	m, err = nc.RequestWithContext(testContext(t), "$SRV.PING", nil)
	if err != nil || !strings.Contains(string(m.Data), "journalet") {
		t.Fatalf("%v, %v", m, err)
	}
}

func TestObserverConnectsByTCPWithItsKey(t *testing.T) {
	b := openBus(t, busDir(t), func(o *Options) { o.Listen = "127.0.0.1:0" })
	nc, err := DialURL(testContext(t), b.Addr(), keyPath(b.opts.Dir, ObserverKeyFile))
	must.OK(t, err)
	nc.Close()
	if nc, err = nats.Connect(b.Addr()); err == nil {
		nc.Close()
		t.Fatal("admitted without a key")
	}
	if b := openBus(t, busDir(t)); b.Addr() != "" || b.srv.srv.Addr() != nil {
		t.Fatal("a port is open without Listen")
	}
}

func TestDialErrorsNameTheRemedy(t *testing.T) {
	dir := busDir(t)
	root := filepath.Dir(dir)
	want := "no agent is running with root directory " + root + ": start one with `journalet run --root-dir " + root
	if _, err := Dial(testContext(t), dir); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("no directory: %v", err)
	}
	closeBus(t, openBus(t, dir))
	if _, err := Dial(testContext(t), dir); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("no agent: %v", err)
	}
	b := openBus(t, dir)
	crash(b)
	if _, err := Dial(testContext(t), dir); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("a dead socket: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	openBus(t, dir)
	if _, err := Dial(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	must.OK(t, os.WriteFile(keyPath(dir, QueryKeyFile), []byte("SUAnonsense"), 0o600))
	if _, err := Dial(testContext(t), dir); err == nil || strings.Contains(err.Error(), "nonsense") {
		t.Fatalf("a broken key: %v", err)
	}
	if got := hideUser("nats://me:secret@host:4222"); got != "nats://host:4222" {
		t.Fatal(got)
	}
}

func TestSocketOfDeepDirectoryIsUnderRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 25), "bus")
	b := openBus(t, dir)
	path := strings.TrimSpace(string(readFile(t, filepath.Join(dir, socketPathFile))))
	if len(path) > maxSocketPath {
		t.Fatal(path)
	}
	nc, _ := observe(t, b)
	must.OK(t, nc.Flush())
	closeBus(t, b)
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Fatalf("%s is left behind: %v", filepath.Dir(path), err)
	}
}

func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	b := openBus(t, busDir(t))
	var conns []*nats.Conn
	for range maxSocketConns {
		nc, _ := observe(t, b)
		conns = append(conns, nc)
	}
	if nc, err := Dial(testContext(t), b.opts.Dir, nats.Timeout(50*time.Millisecond)); err == nil {
		nc.Close()
		t.Fatal("one connection above the limit was admitted")
	}
	conns[0].Close()
	waitUntil(t, "a connection in the place of one that was closed", func() bool {
		nc, err := Dial(testContext(t), b.opts.Dir)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	appendFacts(t, b, 1)
}
