package bus

import (
	"testing"
	"time"

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
	// Requests of one connection are served in order: after this reply, those before have been sent.
	if _, err := forger.RequestWithContext(testContext(t), "journalet.n.pods", nil); err != nil {
		t.Fatal(err)
	}
	must.OK(t, victim.Flush())
	if m, err := events.NextMsg(10 * time.Millisecond); err == nil {
		t.Fatalf("an observer received %q on %s", m.Data, m.Subject)
	}
}
