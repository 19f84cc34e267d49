package bus

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

// Only the agent may publish events, but a requester names the subject of the reply. If that is an event's subject, the
// reply must still not reach observers.
func TestReplyCannotBeForgedAsEvent(t *testing.T) {
	b := openBus(t, busDir(t))
	servePods(t, b, func(r micro.Request) { _ = r.Respond([]byte("a reply")) })
	victim, _ := observe(t, b)
	events, err := victim.SubscribeSync(messages.EventFilterAll)
	must.OK(t, err)
	must.OK(t, victim.Flush())
	forger, _ := query(t, b)
	forged := messages.EventSubject(testNode, messages.Pod("p"), "pod_finished")
	for _, subject := range []string{"journalet.n.pods", "$SRV.PING", "$SRV.INFO.journalet"} {
		must.OK(t, forger.PublishRequest(subject, forged, nil))
	}
	// Requests of one connection are served in order: after this reply, the earlier replies have been sent.
	if _, err := forger.RequestWithContext(testContext(t), "journalet.n.pods", nil); err != nil {
		t.Fatal(err)
	}
	must.OK(t, victim.Flush())
	if m, err := events.NextMsg(10 * time.Millisecond); err == nil {
		t.Fatalf("an observer received %q on %s", m.Data, m.Subject)
	}
}

// Observers request events of the past in the account that events are published in. The agent sees where they want the
// reply, and replies to inboxes only; and no request of theirs reaches another service.
func TestObserversReceiveRepliesInInboxesOnly(t *testing.T) {
	b := openBus(t, busDir(t))
	appendFacts(t, b, 3)
	served, err := b.Services().Subscribe(PastEvents(testNode), func(m *nats.Msg) {
		if subject, ok := ReplySubject(m.Reply); ok {
			_ = b.Services().Publish(subject, []byte("a page"))
		}
	})
	must.OK(t, err)
	must.OK(t, b.Services().Flush())
	defer func() { _ = served.Unsubscribe() }()
	victim, _ := observe(t, b)
	events, err := victim.SubscribeSync(messages.EventFilterAll)
	must.OK(t, err)
	must.OK(t, victim.Flush())
	forger, _ := observe(t, b)
	node := messages.Token(testNode)
	read := "journalet." + node + ".events.read"
	for _, reply := range []string{
		messages.EventSubject(testNode, messages.Pod("p"), "pod_finished"), "node." + node + ".pod.p.decided",
		"$JS.API.STREAM.PURGE.JOURNAL", "journalet." + node + ".pods.list", "_INBOX", "_INBOX.", "_INBOX.*", "_INBOX.>",
		"_INBOX.a..b", "_INBOX." + strings.Repeat("r", 1000), "reply._INBOX.x", "",
	} {
		_ = forger.PublishRequest(read, reply, nil) // some are refused by the client
		if _, ok := ReplySubject(reply); ok {
			t.Errorf("the agent replies to %q", reply)
		}
	}
	// Requests of one connection are served in order: after this reply, the earlier requests have been served.
	m, err := forger.RequestWithContext(testContext(t), read, nil)
	if err != nil || string(m.Data) != "a page" {
		t.Fatalf("the reply to an inbox is %v, %v", m, err)
	}
	must.OK(t, victim.Flush())
	if m, err := events.NextMsg(10 * time.Millisecond); err == nil {
		t.Fatalf("an observer received %q on %s", m.Data, m.Subject)
	}
	wantUnchanged(t, b, 3)
}
