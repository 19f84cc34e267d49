package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/journalet/journalet/messages"
)

// Nobody but the agent may write events, but who asks names the subject that the answer goes to. Named after an event, the answer must still not reach those who listen for events.
func TestAnAnswerCannotBeMadeToLookLikeAnEvent(t *testing.T) {
	b := openBus(t, busDir(t))
	service, err := micro.AddService(b.Services(), micro.Config{Name: "journalet", Version: "0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Stop() })
	if err := service.AddEndpoint("info", micro.HandlerFunc(func(r micro.Request) { _ = r.Respond([]byte("an answer")) }),
		micro.WithEndpointSubject("journalet.n.info")); err != nil {
		t.Fatal(err)
	}
	if err := b.Services().Flush(); err != nil {
		t.Fatal(err)
	}
	victim, _ := observe(t, b)
	heard, err := victim.SubscribeSync(messages.EventFilterAll)
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Flush(); err != nil {
		t.Fatal(err)
	}
	forger, _ := ask(t, b)
	forged := messages.EventSubject(testNode, messages.Pod("p"), "pod_finished")
	for _, ask := range []string{"journalet.n.info", "$SRV.PING", "$SRV.INFO.journalet"} {
		if err := forger.PublishRequest(ask, forged, nil); err != nil {
			t.Fatal(err)
		}
	}
	// Requests of one connection are served in order: once this one is answered, so are those before.
	if _, err := forger.RequestWithContext(testContext(t), "journalet.n.info", nil); err != nil {
		t.Fatal(err)
	}
	if err := victim.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := heard.NextMsg(10 * time.Millisecond); err == nil {
		t.Fatalf("%s brought %q", m.Subject, m.Data)
	}
}
