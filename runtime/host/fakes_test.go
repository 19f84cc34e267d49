package host

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// memory is a journal in memory that stores on a goroutine of its own, as the real one does.
type memory struct {
	mu        sync.Mutex
	records   []*journaletv1.Record
	queue     []*journaletv1.Record
	wake      chan struct{}
	stored    func([]*journaletv1.Record)
	delivered uint64
	changed   *sync.Cond
	// cut is the number of oldest records that were cut.
	cut uint64
	// refuse, if set, returns why a record cannot be stored.
	refuse func(*journaletv1.Record) error
	// hold keeps records from being stored while it is set.
	hold bool

	// reading, if set, is called when a Read has chosen its records.
	reading func()

	barrier uint64
	snaps   []*journaletv1.Snapshot
}

func newMemory(t *testing.T) *memory {
	m := &memory{wake: make(chan struct{}, 1)}
	m.changed = sync.NewCond(&m.mu)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go m.run(ctx)
	return m
}

func (m *memory) run(ctx context.Context) {
	for {
		select {
		case <-m.wake:
		case <-ctx.Done():
			return
		}
		for {
			m.mu.Lock()
			batch := m.queue
			m.queue = nil
			if m.hold {
				m.queue, batch = batch, nil
			}
			for _, rec := range batch {
				rec.Seq = uint64(len(m.records)) + 1
				m.records = append(m.records, rec)
			}
			m.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			m.stored(batch)
			m.mu.Lock()
			m.delivered = batch[len(batch)-1].GetSeq()
			m.changed.Broadcast()
			m.mu.Unlock()
		}
	}
}

func (m *memory) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *memory) Append(recs ...*journaletv1.Record) error {
	for _, rec := range recs {
		if _, err := messages.Encode(rec); err != nil {
			return err
		}
		if m.refuse != nil && m.refuse(rec) != nil {
			return m.refuse(rec)
		}
	}
	m.mu.Lock()
	for _, rec := range recs {
		rec.Epoch = 1
	}
	m.queue = append(m.queue, recs...)
	m.mu.Unlock()
	m.kick()
	return nil
}

func (m *memory) AppendFact(_ context.Context, rec *journaletv1.Record) error { return m.Append(rec) }

// queueFor appends a fact about an actor. The fact may concern another actor.
func (m *memory) queueFor(about messages.Ref, e *journaletv1.Event) error {
	return m.Append(fact(time.Unix(1, 0), about, e))
}

func (m *memory) Flush(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := uint64(len(m.records) + len(m.queue))
	for m.delivered < want {
		m.changed.Wait()
	}
	return nil
}

func (m *memory) Last() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.records))
}

func (m *memory) CutTo() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut + 1
}

func (m *memory) Read(_ context.Context, from, to uint64, _ string, f func(*journaletv1.Record, int) error) error {
	m.mu.Lock()
	recs, reading := m.records[max(from, m.cut+1)-1:to], m.reading
	m.mu.Unlock()
	if reading != nil {
		reading()
	}
	for _, rec := range recs {
		if err := f(rec, proto.Size(rec)); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Save(_ context.Context, barrier uint64, snaps []*journaletv1.Snapshot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.barrier, m.snaps = barrier, snaps
	return nil
}

func (m *memory) Load(context.Context) (uint64, []*journaletv1.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.barrier, m.snaps, nil
}

// all returns a copy of the stored records.
func (m *memory) all() []*journaletv1.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*journaletv1.Record(nil), m.records...)
}

// await blocks until a stored record satisfies ok.
func (m *memory) await(t *testing.T, what string, ok func(*journaletv1.Record) bool) *journaletv1.Record {
	t.Helper()
	late := time.AfterFunc(3*time.Minute, func() {
		m.mu.Lock()
		m.delivered = 1 << 62
		m.changed.Broadcast()
		m.mu.Unlock()
	})
	defer late.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for seen := 0; ; {
		for ; seen < len(m.records); seen++ {
			if ok(m.records[seen]) {
				return m.records[seen]
			}
		}
		if m.delivered == 1<<62 {
			t.Fatalf("no such record: %s", what)
		}
		m.changed.Wait()
	}
}

// noEffects is a driver that does nothing.
type noEffects struct{}

func (noEffects) Stored(*journaletv1.Record) {}

// counter is a decider that counts: each event adds one to its generation, and on each PodObserved it decides a status
// with that count. It fails on demand.
type counter struct {
	ref   messages.Ref
	state *journaletv1.Timers
	fail  func(actors.Event) error
	gate  func()
}

func (c *counter) Evolve(e actors.Event) error {
	if e.Body.GetPodStatusChanged() != nil {
		return nil
	}
	if c.fail != nil {
		if err := c.fail(e); err != nil {
			return err
		}
	}
	c.state.Generation++
	return nil
}

func (c *counter) Decide(in actors.Input, emit actors.Emit) {
	if c.gate != nil {
		c.gate()
	}
	for _, e := range in.Events {
		if e.Body.GetPodObserved() == nil {
			continue
		}
		emit(messages.NewEvent(&journaletv1.PodStatusChanged{Restarts: uint32(c.state.Generation)}))
	}
}

func (c *counter) State() proto.Message { return c.state }
func (c *counter) Restore(b []byte) error {
	c.state = new(journaletv1.Timers)
	return proto.Unmarshal(b, c.state)
}
func (c *counter) Digests() []string           { return nil }
func (c *counter) Resolve(string, *corev1.Pod) {}
func (c *counter) Timers() *journaletv1.Timers { return nil }
func observed(uid string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodObserved{
		Uid: uid, ObservedAt: timestamppb.New(time.Unix(1, 0)), Sandboxes: []*journaletv1.SandboxObservation{{Id: "s"}},
	})
}

func counters(change func(*counter)) fold.Deciders {
	return func(ref messages.Ref) actors.Decider {
		if ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
			return fold.AllDeciders(ref)
		}
		c := &counter{ref: ref, state: new(journaletv1.Timers)}
		if change != nil {
			change(c)
		}
		return c
	}
}

// newHost returns a host over a journal.
func newHost(m *memory, deciders fold.Deciders) *Host {
	h := New(Options{
		Node: "n", Epoch: 1, Journal: m, Snapshots: m, Deciders: deciders, Effects: noEffects{}, Now: time.Now,
		Manifest: func(_ context.Context, digest string) (*corev1.Pod, error) {
			return nil, fmt.Errorf("no manifest %s", digest)
		},
	})
	m.stored = h.Stored
	return h
}

// startHost recovers and starts a host over a journal.
func startHost(t *testing.T, m *memory, deciders fold.Deciders) *Host {
	t.Helper()
	h := newHost(m, deciders)
	r, err := h.Recover()
	if err != nil {
		t.Fatal(err)
	}
	h.Start(r, &journaletv1.AgentStarted{Epoch: 1, Config: &journaletv1.AgentConfig{NodeName: "n"}})
	return h
}

func stopHost(t *testing.T, h *Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := h.Stop(ctx); err != nil {
		t.Log(err)
	}
}

// count returns a counter's count.
func count(t *testing.T, h *Host, uid string) uint64 {
	t.Helper()
	var n uint64
	if err := h.Inspect(t.Context(), messages.Pod(uid), func(d actors.Decider) {
		n = d.State().(*journaletv1.Timers).GetGeneration()
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (m *mailbox) isPaused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.paused
}
