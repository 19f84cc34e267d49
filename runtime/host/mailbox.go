package host

import (
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// mailboxSize bounds the records queued for one actor. An actor that falls further behind is lagging and catches up
// from the journal: see catchUp in repair.go.
const mailboxSize = 1024

// maxInspections bounds the inspections queued for one actor.
const maxInspections = 64

// mailbox keeps the journal's order: only the host puts records in, and the actor handles them in that order. System
// messages of protoactor come first, then inspections, then records. An inspection that must see all earlier routed
// records waits for the records that were queued when it came.
type mailbox struct {
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher

	mu          sync.Mutex
	system      []any
	inspections []any
	records     []message
	head        int
	// suspended is set by protoactor while it handles a failure, paused by the host.
	suspended bool
	paused    bool
	scheduled bool
	started   bool
	closed    bool
	// lagging is set while records are skipped because the mailbox was full.
	lagging bool
	// missed is the seq of the last skipped record.
	missed uint64
	// drained is signalled, once, when a lagging mailbox is half empty again.
	drained chan struct{}
}

var _ actor.Mailbox = (*mailbox)(nil)

// message is a record, or a marker between two records.
type message interface {
	// Seq returns the record's seq; for a marker, the seq of the last record before it.
	Seq() uint64
}

func newMailbox() *mailbox { return &mailbox{drained: make(chan struct{}, 1)} }

// put appends a record. It returns false once, when the mailbox is full and starts to lag: from this record on it skips
// records until catchUp has delivered them.
func (m *mailbox) put(d message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return true
	case m.lagging:
		m.missed = d.Seq()
		return true
	case m.waiting() >= mailboxSize:
		m.lagging, m.missed = true, d.Seq()
		return false
	}
	m.append(d)
	return true
}

// refill appends a skipped record; it returns false if the mailbox is full.
func (m *mailbox) refill(d message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting() >= mailboxSize {
		return m.closed
	}
	m.append(d)
	return true
}

// refillAll appends a record or a marker even to a full mailbox: pending records of a fold, and one marker at a time.
func (m *mailbox) refillAll(d message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.append(d)
}

// caughtUp ends the lag if no record after seq was skipped.
func (m *mailbox) caughtUp(seq uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missed > seq && !m.closed {
		return false
	}
	m.lagging = false
	return true
}

// behind reports whether the mailbox skips records.
func (m *mailbox) behind() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lagging
}

// append adds a record and schedules the actor. The caller holds the lock.
func (m *mailbox) append(d message) {
	if m.closed {
		return
	}
	// Reclaim the space of handled records, also in a mailbox that is never empty.
	if m.head > 0 && (m.head == len(m.records) || m.head >= mailboxSize) {
		m.records, m.head = slices.Delete(m.records, 0, m.head), 0
	}
	m.records = append(m.records, d)
	m.schedule()
}

func (m *mailbox) waiting() int { return len(m.records) - m.head }

// close drops the queued records and rejects new ones.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.records, m.head = true, nil, 0
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.drained <- struct{}{}:
	default:
	}
}

// PostUserMessage queues an inspection, or rejects it beyond maxInspections.
func (m *mailbox) PostUserMessage(msg any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i, ok := msg.(*inspection); ok {
		if m.closed || len(m.inspections) >= maxInspections {
			i.reject()
			return
		}
		if i.current && m.waiting() > 0 {
			i.after = m.records[len(m.records)-1].Seq()
		}
	}
	m.inspections = append(m.inspections, msg)
	m.schedule()
}

// PostSystemMessage queues a message of protoactor.
func (m *mailbox) PostSystemMessage(msg any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.system = append(m.system, msg)
	m.schedule()
}

// RegisterHandlers is called by protoactor before the first message.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start is called by protoactor once the actor runs.
func (m *mailbox) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started = true
	m.schedule()
}

// UserMessageCount returns the number of queued records and inspections.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting() + len(m.inspections)
}

// pause stops the actor after its current message until resume. System messages are still handled.
func (m *mailbox) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = true
}

// resume ends pause.
func (m *mailbox) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = false
	m.schedule()
}

// schedule schedules the actor if a message is queued. The caller holds the lock.
func (m *mailbox) schedule() {
	if m.scheduled || !m.started || m.invoker == nil || !m.pending() {
		return
	}
	m.scheduled = true
	m.dispatcher.Schedule(m.run)
}

func (m *mailbox) pending() bool {
	return len(m.system) > 0 || !m.suspended && !m.paused && (len(m.inspections) > 0 || m.head < len(m.records))
}

// mayInspect reports whether the actor has handled what its next inspection waits for. The caller holds the lock.
func (m *mailbox) mayInspect() bool {
	i, ok := m.inspections[0].(*inspection)
	return !ok || m.waiting() == 0 || m.records[m.head].Seq() > i.after
}

// next removes and returns the next message; nil ends the run and the schedule.
func (m *mailbox) next() (msg any, system bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		switch {
		case len(m.system) > 0:
			msg, m.system = m.system[0], m.system[1:]
			switch msg.(type) {
			case *actor.SuspendMailbox:
				m.suspended = true
				continue
			case *actor.ResumeMailbox:
				m.suspended = false
				continue
			}
			return msg, true
		case m.suspended || m.paused:
		case len(m.inspections) > 0 && m.mayInspect():
			msg, m.inspections = m.inspections[0], m.inspections[1:]
			return msg, false
		case m.head < len(m.records):
			d := m.records[m.head]
			m.records[m.head] = nil
			m.head++
			if m.lagging && m.waiting() <= mailboxSize/2 {
				m.signal()
			}
			return d, false
		}
		m.scheduled = false
		return nil, false
	}
}

func (m *mailbox) run() {
	var msg any
	defer func() {
		if p := recover(); p != nil {
			m.invoker.EscalateFailure(p, msg)
			m.mu.Lock()
			m.scheduled = false
			m.schedule()
			m.mu.Unlock()
		}
	}()
	for {
		var system bool
		if msg, system = m.next(); msg == nil {
			return
		}
		if system {
			m.invoker.InvokeSystemMessage(msg)
		} else {
			m.invoker.InvokeUserMessage(msg)
		}
	}
}
