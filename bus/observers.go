package bus

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Limits of what waits to be published. Beyond any of them all that waits is dropped, counted and reported: one gap
// that an observer can close from the journal, rather than many.
const (
	// maxWaiting is a burst of 300 pods.
	maxWaiting      = 4096
	maxWaitingBytes = 16 << 20
	// maxWait keeps events live. A slower observer is better off with the journal.
	maxWait = 10 * time.Second
)

// Limits of the fan-out. An event costs the machine some 10 µs of CPU for each subscription, from the server to the
// client. All observers together get a fifth of one core while nothing happens, and a twentieth while records are being
// stored: then the agent needs the machine, and events may wait.
const (
	// quietShare and busyShare are the time of one delivery: 20,000 of them a second, and 5,000.
	quietShare = 50 * time.Microsecond
	busyShare  = 200 * time.Microsecond
	// busyFor is how long after a record the agent counts as busy.
	busyFor = 100 * time.Millisecond
	// deliveryUnit is how many bytes of an event cost as much as one delivery.
	deliveryUnit = 1 << 10
	// deliveryBurst is how much of that time may be saved up.
	deliveryBurst = 250 * time.Millisecond
	// maxEventCost is a busy second's share. An event that costs more is not sent: observers find it in the journal.
	maxEventCost = int(time.Second / busyShare)
)

// gapLogInterval bounds how often gaps are logged.
const gapLogInterval = time.Minute

const (
	// LiveFromHeader is a header of events: all records from this number on up to the event's own were published. An
	// observer that has seen no event of the record before it may have missed some, and finds them in the journal.
	// Without the header nothing was missed since the agent's start.
	LiveFromHeader = "Journalet-Live-From"
	// EventsMissed is the name of the notice that records were not published: no event of the journal, and published
	// as one about the agent. Its data is a Missed.
	EventsMissed = "events_missed"
)

// Missed names records whose events were not published.
type Missed struct {
	// From is the record to resume from, To the last record that was not published.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Observers publishes every event of stored records, as JSON, on a subject with the event's name, only while a client
// subscribes to it. It has a bounded share of the machine: what it cannot publish in time is dropped and reported with
// the number to resume from.
type Observers struct {
	node            string
	nc              *nats.Conn
	agent, observer *server.Account
	log             *slog.Logger
	withhold        bool // see Options.Withhold

	mu      sync.Mutex
	waiting []waitingRecord
	bytes   int    // of waiting
	gap     Missed // not reported yet; From is 0 without one
	missed  uint64
	stored  time.Time // when the last record was handed over
	sent    atomic.Uint64

	pace    pace
	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{} // nil while the publisher does not run

	epoch atomic.Uint64 // of the record that was handed over last

	// These are for the publisher's goroutine only. liveFrom is 0 while nothing was missed.
	liveFrom uint64
	logged   time.Time
}

// waitingRecord is a stored record that is not published yet.
type waitingRecord struct {
	rec   *journaletv1.Record
	size  int
	since time.Time
}

func newObservers(node string, nc *nats.Conn, a *accounts, log *slog.Logger) *Observers {
	return &Observers{
		node: node, nc: nc, agent: a.agent, observer: a.observer, log: log,
		pace: pace{burst: deliveryBurst}, wake: make(chan struct{}, 1),
	}
}

// Connected reports whether any client may be subscribed: a cheap test, true as soon as an observer or a leaf node
// connects.
func (o *Observers) Connected() bool {
	return o.observer.NumConnections() > 0 || o.agent.NumLeafNodes() > 0
}

// Publish hands over a stored record, whose events are then sent to their subscribers. It is called in the journal's
// order and never waits: neither for an observer, nor for the fan-out.
func (o *Observers) Publish(rec *journaletv1.Record) {
	if !o.Connected() {
		return
	}
	now, size := time.Now(), proto.Size(rec)
	o.epoch.Store(rec.GetEpoch())
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, waitingRecord{rec, size, now})
	o.bytes += size
	o.stored = now
	if len(o.waiting) > maxWaiting || o.bytes > maxWaitingBytes || now.Sub(o.waiting[0].since) > maxWait {
		o.drop()
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// drop drops all that waits, as one gap. The caller holds the lock.
func (o *Observers) drop() {
	o.miss(o.waiting[0].rec.GetSeq(), o.waiting[len(o.waiting)-1].rec.GetSeq(), len(o.waiting))
	o.waiting, o.bytes = nil, 0
}

// miss notes n records in a row as a gap, or as more of the gap before. The caller holds the lock.
func (o *Observers) miss(from, to uint64, n int) {
	if o.gap.From == 0 || from < o.gap.From {
		o.gap.From = from
	}
	o.gap.To = max(o.gap.To, to)
	o.missed += uint64(n)
}

// Missed returns how many records of this run were not published although an observer was connected.
func (o *Observers) Missed() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.missed
}

// start starts the publisher.
func (o *Observers) start() {
	o.stop, o.stopped = make(chan struct{}), make(chan struct{})
	go o.run()
}

// close ends the publisher. What its share of time admits is still published.
func (o *Observers) close() {
	if o.stopped != nil {
		close(o.stop)
		<-o.stopped
		o.stopped = nil
	}
}

func (o *Observers) run() {
	defer close(o.stopped)
	for {
		gap, rec := o.next()
		switch {
		case gap.From > 0:
			o.report(gap)
		case rec != nil:
			o.send(rec)
		default:
			select {
			case <-o.wake:
			case <-o.stop:
				return
			}
		}
	}
}

// next takes the gap to report, or else the next record; neither if nothing waits.
func (o *Observers) next() (gap Missed, rec *journaletv1.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gap.From > 0 {
		gap, o.gap = o.gap, Missed{}
		return gap, nil
	}
	if len(o.waiting) == 0 {
		o.waiting = nil // frees the memory of a burst
		return Missed{}, nil
	}
	first := o.waiting[0]
	o.waiting[0] = waitingRecord{}
	o.waiting = o.waiting[1:]
	o.bytes -= first.size
	return Missed{}, first.rec
}

// report publishes the notice of a gap.
func (o *Observers) report(gap Missed) {
	if now := time.Now(); now.Sub(o.logged) > gapLogInterval {
		o.logged = now
		o.log.Warn("observers request more than their share of the machine; what they miss is in the journal",
			"from", gap.From, "to", gap.To)
	}
	o.liveFrom = gap.To + 1
	data, _ := json.Marshal(gap) // cannot fail: two numbers
	f := messages.Flat{
		Seq: gap.To, Epoch: o.epoch.Load(), Time: time.Now().UTC().Format(time.RFC3339Nano),
		Author: messages.Agent.String(), Event: EventsMissed, Data: data,
	}
	subject := messages.EventSubject(o.node, messages.Agent, EventsMissed)
	if b, err := json.Marshal(&f); err == nil {
		o.publish(subject, b, o.agent.Interest(subject))
	}
}

// send publishes the events of a record, unless one of them costs too much.
func (o *Observers) send(rec *journaletv1.Record) {
	if o.withhold {
		rec = clean.Withheld(rec)
	}
	for _, f := range messages.FlattenLazily(o.node, rec) {
		n := o.agent.Interest(f.Subject())
		if n == 0 || !f.Encode() {
			continue
		}
		b, err := json.Marshal(&f)
		if err != nil {
			continue // cannot happen: every part of it was encoded before
		}
		cost := n * (1 + len(b)/deliveryUnit)
		if cost > maxEventCost {
			o.mu.Lock()
			o.miss(f.Seq, f.Seq, 1)
			o.mu.Unlock()
			return
		}
		o.publish(f.Subject(), b, cost)
	}
}

// publish sends one event to its subscribers, after a pause for what earlier events have cost. Once the bus closes,
// publish sends nothing that would need a pause.
func (o *Observers) publish(subject string, data []byte, cost int) {
	if pause := o.pace.pause(time.Now()); pause > 0 {
		select {
		case <-time.After(pause):
		case <-o.stop:
			return
		}
	}
	m := &nats.Msg{Subject: subject, Data: data}
	if o.liveFrom > 0 {
		m.Header = nats.Header{LiveFromHeader: []string{strconv.FormatUint(o.liveFrom, 10)}}
	}
	// An error means that the bus is closed.
	_ = o.nc.PublishMsg(m)
	o.sent.Add(1)
	o.pace.spend(time.Duration(cost) * o.share())
}

// share returns what one delivery costs now.
func (o *Observers) share() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.stored) < busyFor {
		return busyShare
	}
	return quietShare
}

// pace bounds the share of time that is spent, with a bound on how much unused time is saved up.
type pace struct {
	burst time.Duration
	due   time.Time
}

// pause returns how long to wait for what was spent before.
func (p *pace) pause(now time.Time) time.Duration {
	if saved := now.Add(-p.burst); p.due.Before(saved) {
		p.due = saved
	}
	return p.due.Sub(now)
}

func (p *pace) spend(d time.Duration) { p.due = p.due.Add(d) }
