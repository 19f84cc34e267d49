package bus

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/observing"
)

// The publisher does not run while these records are handed over: Publish waits for nothing, and keeps a bounded
// number.
func TestWhatObserversMissIsCountedAndReportedWithWhereToResume(t *testing.T) {
	b := openBus(t, busDir(t))
	o := b.Observers()
	nc, _ := observe(t, b)
	live := make(chan *nats.Msg, 2*maxWaiting)
	if _, err := nc.ChanSubscribe(messages.EventFilter(testNode), live); err != nil {
		t.Fatal(err)
	}
	must.OK(t, nc.Flush())
	o.close()
	for seq := range uint64(maxWaiting + 11) {
		rec := fact(messages.Pod("p"), 0)
		rec.Seq = 7 + seq
		o.Publish(rec)
	}
	if len(o.waiting) != 10 || o.Missed() != maxWaiting+1 {
		t.Fatalf("%d records wait and %d were missed", len(o.waiting), o.Missed())
	}
	o.start()
	for i := range uint64(11) {
		m := <-live
		var f messages.Flat
		must.OK(t, json.Unmarshal(m.Data, &f))
		if got := m.Header.Get(LiveFromHeader); got != "4104" {
			t.Fatalf("event %d is live from %q, want 4104", i, got)
		}
		if i > 0 {
			if f.Seq != 4103+i || f.Event != "pod_observed" {
				t.Fatalf("event %d is %s", i, m.Data)
			}
			continue
		}
		var gap Missed
		must.OK(t, json.Unmarshal(f.Data, &gap))
		if f.Event != EventsMissed || gap != (Missed{From: 7, To: 4103}) || f.Seq != gap.To {
			t.Fatalf("the notice is %s", m.Data)
		}
	}
}

func TestRecordsThatWaitAreBoundedInBytesAndTime(t *testing.T) {
	b := openBus(t, busDir(t))
	o := b.Observers()
	nc, _ := observe(t, b)
	must.OK(t, nc.Flush())
	o.close()
	big := fact(messages.Pod("p"), 0)
	big.Seq = 1
	big.GetFact().GetPodObserved().Uid = string(make([]byte, maxWaitingBytes))
	o.Publish(big)
	if len(o.waiting) != 0 || o.bytes != 0 || o.Missed() != 1 {
		t.Fatalf("%d bytes wait, %d records were missed", o.bytes, o.Missed())
	}
	o.Publish(fact(messages.Pod("p"), 0))
	o.waiting[0].since = time.Now().Add(-maxWait - time.Second)
	o.Publish(fact(messages.Pod("p"), 0))
	if len(o.waiting) != 0 || o.Missed() != 3 {
		t.Fatalf("%d records wait, %d were missed", len(o.waiting), o.Missed())
	}
}

func TestPaceAdmitsABurstAndThenItsShare(t *testing.T) {
	p, now := pace{burst: 10 * time.Millisecond}, time.Unix(1000, 0)
	if d := p.pause(now); d > 0 {
		t.Fatalf("the first pauses %v", d)
	}
	p.spend(10 * time.Millisecond)
	if d := p.pause(now); d > 0 {
		t.Fatalf("within the burst it pauses %v", d)
	}
	p.spend(12 * time.Second)
	if d := p.pause(now); d != 12*time.Second {
		t.Fatalf("after 12 s it pauses %v", d)
	}
	if d := p.pause(now.Add(time.Hour)); d != -p.burst {
		t.Fatalf("an hour later %v are saved up", -d)
	}
}

func TestConnectionHasABoundedNumberOfSubscriptions(t *testing.T) {
	b := openBus(t, busDir(t))
	crowd, err := observing.Join(b.opts.Dir, 2, 200)
	must.OK(t, err)
	defer crowd.Leave()
	if n := b.Observers().agent.Interest("event.n.pod.p.pod_observed"); n != 2*maxSubscriptions {
		t.Fatalf("one event is delivered %d times, want %d", n, 2*maxSubscriptions)
	}
}

func TestObserversGetNoWordsOfContainersIfTheyAreWithheld(t *testing.T) {
	for _, withhold := range []bool{false, true} {
		b := openBus(t, busDir(t), func(o *Options) { o.Withhold = withhold })
		nc, _ := observe(t, b)
		live, err := nc.SubscribeSync(messages.EventFilter(testNode))
		must.OK(t, err)
		must.OK(t, nc.Flush())
		rec := fact(messages.Pod("p"), 0)
		rec.Seq = 1
		rec.GetFact().GetPodObserved().Containers = []*journaletv1.ContainerObservation{{Name: "c", Message: "my words"}}
		b.Observers().Publish(rec)
		m, err := live.NextMsgWithContext(testContext(t))
		must.OK(t, err)
		data := string(m.Data)
		if strings.Contains(data, "my words") == withhold || strings.Contains(data, clean.Mark) != withhold {
			t.Errorf("withheld %v: %s", withhold, m.Data)
		}
		if rec.GetFact().GetPodObserved().GetContainers()[0].GetMessage() != "my words" {
			t.Error("the record itself was changed")
		}
	}
}

func TestEventThatCostsTooMuchIsMissedAndNotSent(t *testing.T) {
	b := openBus(t, busDir(t))
	o := b.Observers()
	crowd, err := observing.Join(b.opts.Dir, 8, maxSubscriptions)
	must.OK(t, err)
	defer crowd.Leave()
	nc, _ := observe(t, b)
	live, err := nc.SubscribeSync(messages.EventFilter(testNode))
	must.OK(t, err)
	must.OK(t, nc.Flush())
	big := fact(messages.Pod("p"), 0)
	big.Seq = 3
	big.GetFact().GetPodObserved().Uid = strings.Repeat("x", 100<<10) // 100 KiB x 257 subscriptions
	o.Publish(big)
	next := fact(messages.Pod("p"), 0)
	next.Seq = 4
	o.Publish(next)
	for _, want := range []string{EventsMissed, "pod_observed"} {
		m, err := live.NextMsgWithContext(testContext(t))
		must.OK(t, err)
		var f messages.Flat
		must.OK(t, json.Unmarshal(m.Data, &f))
		if f.Event != want || m.Header.Get(LiveFromHeader) != "4" {
			t.Fatalf("want %s, live from 4; got %s, live from %q", want, m.Data, m.Header.Get(LiveFromHeader))
		}
	}
	if o.Missed() != 1 {
		t.Fatalf("%d records were missed", o.Missed())
	}
}
