package host

import (
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// mailboxSize bounds the records that wait for one actor. One that falls further behind is lagging
// and catches up from the journal, see lag.go.
const mailboxSize = 1024

// maxQuestions bounds the questions (Inspect) that wait for one actor.
const maxQuestions = 64

// mailbox keeps journal order: records are handled in the order in which they were put in, and only
// the host puts them in. System messages of protoactor come first, then questions, then records.
type mailbox struct {
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher

	mu        sync.Mutex
	system    []any
	questions []any
	records   []message
	head      int
	// suspended is protoactor's, while a failure is being handled; held is the host's.
	suspended bool
	held      bool
	scheduled bool
	started   bool
	closed    bool
	// lagging is set while records are left out because the box was full.
	lagging bool
	// missed is the seq of the last record that was left out.
	missed uint64
	// drained is signalled, once, when a lagging box has room for half its size again.
	drained chan struct{}
}

var _ actor.Mailbox = (*mailbox)(nil)

// message is what stands in line: a record, or a marker between two records.
type message interface {
	// seq is the record's, or that of the last record before a marker.
	seq() uint64
}

func (d *delivery) seq() uint64 { return d.rec.GetSeq() }

func newMailbox() *mailbox { return &mailbox{drained: make(chan struct{}, 1)} }

// put appends a record. It reports false once, when the box is full and begins to lag: from this
// record on, records are left out until catchUp has brought them.
func (m *mailbox) put(d message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return true
	case m.lagging:
		m.missed = d.seq()
		return true
	case m.waiting() >= mailboxSize:
		m.lagging, m.missed = true, d.seq()
		return false
	}
	m.append(d)
	return true
}

// refill appends a record that was left out; it reports false if there is no room for it.
func (m *mailbox) refill(d message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting() >= mailboxSize {
		return m.closed
	}
	m.append(d)
	return true
}

// refillAll appends a record or a marker whatever the room: what a fold left open, and one marker at a time.
func (m *mailbox) refillAll(d message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.append(d)
}

// caughtUp ends the lag if everything up to seq was brought and nothing later was left out.
func (m *mailbox) caughtUp(seq uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missed > seq && !m.closed {
		return false
	}
	m.lagging = false
	return true
}

// behind tells whether records are being left out.
func (m *mailbox) behind() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lagging
}

// append adds a record and sees that it is handled. The lock is held.
func (m *mailbox) append(d message) {
	if m.closed {
		return
	}
	// A box that is never empty would else keep the room of all that ever went through it.
	if m.head > 0 && (m.head == len(m.records) || m.head >= mailboxSize) {
		m.records, m.head = slices.Delete(m.records, 0, m.head), 0
	}
	m.records = append(m.records, d)
	m.schedule()
}

func (m *mailbox) waiting() int { return len(m.records) - m.head }

// close drops what waits; nothing is taken any more.
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

// PostUserMessage takes a question. Beyond maxQuestions it is refused by its own answer.
func (m *mailbox) PostUserMessage(msg any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q, ok := msg.(*question); ok && (m.closed || len(m.questions) >= maxQuestions) {
		q.refuse()
		return
	}
	m.questions = append(m.questions, msg)
	m.schedule()
}

// PostSystemMessage takes a message of protoactor's own.
func (m *mailbox) PostSystemMessage(msg any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.system = append(m.system, msg)
	m.schedule()
}

// RegisterHandlers is called by protoactor before anything is handled.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start is called by protoactor once the actor can be reached.
func (m *mailbox) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started = true
	m.schedule()
}

// UserMessageCount tells how many records and questions wait.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting() + len(m.questions)
}

// hold keeps records and questions from being handled until let. One being handled now goes on.
func (m *mailbox) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = true
}

// let ends hold.
func (m *mailbox) let() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = false
	m.schedule()
}

// schedule sees that somebody handles what waits. The lock is held.
func (m *mailbox) schedule() {
	if m.scheduled || !m.started || m.invoker == nil || !m.pending() {
		return
	}
	m.scheduled = true
	m.dispatcher.Schedule(m.run)
}

func (m *mailbox) pending() bool {
	return len(m.system) > 0 || !m.suspended && !m.held && (len(m.questions) > 0 || m.head < len(m.records))
}

// next takes the next message; nil ends the run, and the box is no longer scheduled.
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
		case m.suspended || m.held:
		case len(m.questions) > 0:
			msg, m.questions = m.questions[0], m.questions[1:]
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
