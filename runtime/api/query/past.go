package query

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/clean"
)

// EventsRead is the request of observers, with the key for events: a page of the journal's events, as RecordsRead. It
// is no service of NATS micro: see bus.PastEvents.
const EventsRead = "events.read"

// Limits of what observers read. All of them together get a fifth of one core, and a twentieth while records are being
// stored, as they do for live events (ADR 029, ADR 037).
const (
	// quietRest and busyRest are the pause after a page, as a multiple of the time that it took.
	quietRest = 4
	busyRest  = 19
	// maxRest bounds it: a page that takes long waits for others, and a client waits only so long for its own.
	maxRest = time.Second
	// maxSaved bounds the unused time that is saved up: an observer that reads little need not wait.
	maxSaved = 250 * time.Millisecond
	// maxInboxes bounds the requests that wait. Each client has one inbox and one request in it: a greedy client waits
	// for its turn behind the others.
	maxInboxes = 64
	// maxPastBytes is less than other pages may have: up to maxInboxes of them wait in the server.
	maxPastBytes = 1 << 20
	maxPastScan  = 5_000
	// maxPastPending and maxPastPendingBytes bound what NATS buffers. Requests beyond are dropped.
	maxPastPending      = 256
	maxPastPendingBytes = 2 << 20
)

var pastLimits = limits{MaxPageEvents, maxPastBytes, maxPastScan}

// past serves the requests of observers, one at a time, with pauses.
type past struct {
	s    *server
	e    endpoint
	wake chan struct{}

	mu      sync.Mutex
	waiting []*nats.Msg // at most one for each inbox
}

// servePast starts to serve observers' requests. They end with the server's context.
func (s *server) servePast() (*nats.Subscription, error) {
	p, view := &past{s: s, wake: make(chan struct{}, 1)}, whole
	if s.Withhold {
		view = clean.Withheld
	}
	p.e = endpoint{EventsRead, "a page of the journal's events", requestTimeout,
		single(func(ctx context.Context, q ReadRequest) (*Page, error) { return s.readPage(ctx, q, pastLimits, view) })}
	sub, err := s.Conn.Subscribe(bus.PastEvents(s.Node), p.take)
	if err != nil {
		return nil, err
	}
	if err := sub.SetPendingLimits(maxPastPending, maxPastPendingBytes); err != nil {
		return nil, err
	}
	s.working.Go(p.run)
	return sub, nil
}

// take queues a request. A later one of the same inbox takes its place: the client no longer waits for the former.
func (p *past) take(m *nats.Msg) {
	if _, ok := bus.ReplySubject(m.Reply); !ok {
		return
	}
	if err := checkSize(m.Data); err != nil {
		p.reject(m, err)
		return
	}
	if !p.queue(m) {
		p.reject(m, &Error{CodeUnavailable, "too many observers read the journal: try again later"})
	}
}

func (p *past) queue(m *nats.Msg) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	inbox := inboxOf(m.Reply)
	for i, other := range p.waiting {
		if inboxOf(other.Reply) == inbox {
			p.waiting[i] = m
			return true
		}
	}
	if len(p.waiting) == maxInboxes {
		return false
	}
	p.waiting = append(p.waiting, m)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return true
}

// inboxOf returns the part of a reply's subject that all requests of a client have in common: _INBOX.<client>.
func inboxOf(reply string) string {
	parts := strings.SplitN(reply, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

func (p *past) next() *nats.Msg {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return nil
	}
	m := p.waiting[0]
	p.waiting = p.waiting[1:]
	return m
}

func (p *past) run() {
	last := p.s.Journal.Last()
	due := time.Now()
	for {
		m := p.next()
		if m == nil {
			select {
			case <-p.wake:
				continue
			case <-p.s.ctx.Done():
				return
			}
		}
		begun := time.Now()
		p.serve(m)
		rest := quietRest * time.Since(begun)
		if now := p.s.Journal.Last(); now != last {
			last, rest = now, busyRest*time.Since(begun)
		}
		if saved := begun.Add(-maxSaved); due.Before(saved) {
			due = saved
		}
		due = due.Add(time.Since(begun) + min(rest, maxRest))
		select {
		case <-time.After(time.Until(due)):
		case <-p.s.ctx.Done():
			return
		}
	}
}

func (p *past) serve(m *nats.Msg) {
	ctx, cancel := context.WithTimeout(p.s.ctx, p.e.timeout)
	defer cancel()
	b, err := p.s.respond(ctx, p.e, m.Data)
	if err != nil {
		p.reject(m, err)
		return
	}
	p.send(m, &nats.Msg{Data: b})
}

// reject responds with an error, in the form of NATS micro.
func (p *past) reject(m *nats.Msg, err error) {
	coded := p.s.coded(p.e, err)
	p.send(m, &nats.Msg{Header: nats.Header{
		micro.ErrorCodeHeader: []string{strconv.Itoa(coded.Code)}, micro.ErrorHeader: []string{coded.Message},
	}})
}

// send sends a response to the observer's inbox, and nowhere else.
func (p *past) send(m, response *nats.Msg) {
	var ok bool
	if response.Subject, ok = bus.ReplySubject(m.Reply); !ok {
		return
	}
	if err := p.s.Conn.PublishMsg(response); err != nil {
		p.s.Log.Debug("cannot send a response", "request", p.e.subject, "err", err)
	}
}
