package simulation

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/util/workqueue"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

var discard = slog.New(slog.DiscardHandler)

// waiter is a coroutine that works when it is woken, and again when it was woken meanwhile.
type waiter struct {
	p      *proc
	due    bool
	asleep bool
}

func (w *waiter) wake() {
	w.due = true
	if w.asleep {
		w.p.interrupt()
	}
}

// sleep waits until it is woken, or for d.
func (w *waiter) sleep(d time.Duration) {
	w.asleep = true
	w.p.sleep(d)
	w.asleep = false
}

func (w *waiter) serve(p *proc, work func()) {
	for w.p = p; ; {
		for !w.due {
			w.sleep(time.Hour)
		}
		w.due = false
		work()
	}
}

// nameQueue models the queue of the mirror driver (workqueue, with its back-off) on virtual time. Of names that wait it
// gives the first.
type nameQueue struct {
	run      *run
	waiting  map[podName]bool
	busy     map[podName]bool
	failures map[podName]int
	waiter
}

var _ workqueue.TypedRateLimitingInterface[podName] = (*nameQueue)(nil)

func newNameQueue(r *run) *nameQueue {
	return &nameQueue{run: r, waiting: map[podName]bool{}, busy: map[podName]bool{}, failures: map[podName]int{}}
}

// Add implements workqueue.TypedRateLimitingInterface, as do the methods below.
func (q *nameQueue) Add(n podName) {
	q.waiting[n] = true
	if q.asleep {
		q.p.interrupt()
	}
}

// Get waits for a name.
func (q *nameQueue) Get() (podName, bool) {
	for q.p = q.run.clock.current; ; {
		for _, n := range slices.SortedFunc(maps.Keys(q.waiting), compareNames) {
			if !q.busy[n] {
				delete(q.waiting, n)
				q.busy[n] = true
				return n, false
			}
		}
		q.sleep(time.Hour)
	}
}

// Done ends the work on a name.
func (q *nameQueue) Done(n podName) { delete(q.busy, n) }

// AddAfter adds a name later.
func (q *nameQueue) AddAfter(n podName, d time.Duration) {
	q.run.clock.after(q.run.scope, d, func() { q.Add(n) })
}

// AddRateLimited adds a name after its back-off.
func (q *nameQueue) AddRateLimited(n podName) {
	q.AddAfter(n, min(500*time.Millisecond<<min(q.failures[n], 10), 2*time.Minute))
	q.failures[n]++
}

// Forget ends the back-off of a name.
func (q *nameQueue) Forget(n podName) { delete(q.failures, n) }

// NumRequeues returns how often a name has failed.
func (q *nameQueue) NumRequeues(n podName) int { return q.failures[n] }

// Len returns how many names wait.
func (q *nameQueue) Len() int { return len(q.waiting) }

// ShutDown does nothing: the queue ends with its run.
func (q *nameQueue) ShutDown() {}

// ShutDownWithDrain does nothing.
func (q *nameQueue) ShutDownWithDrain() {}

// ShuttingDown returns false.
func (q *nameQueue) ShuttingDown() bool { return false }

// cursor keeps the agent's cursor of events on the node's disk.
type cursor struct{ *apiServer }

// Load implements events.Cursor.
func (c cursor) Load() (uint64, bool, error) { return c.cursor, c.saved, nil }

// Save implements events.Cursor.
func (c cursor) Save(seq uint64) error {
	c.cursor, c.saved = seq, true
	return nil
}

// store takes the time of writing manifests to disk, which precedes the fact that names them.
func (m *member) store(_ context.Context, manifests iter.Seq2[string, []byte]) error {
	for digest, canonical := range manifests {
		m.run.store(m.run.clock.current, m.noise)
		m.run.manifests.canonical[digest] = canonical
		m.run.tenants.storesManifest(digest, canonical)
	}
	return nil
}

// certificate is the client certificate on the node's disk.
type certificate struct {
	from, until time.Time
	number      int
}

// certificateLasts is its lifetime, short beside a cluster's. certificateCheck is how often it is checked
// (certificate.Manager: checkEvery).
const (
	certificateLasts = 15 * time.Minute
	certificateCheck = 10 * time.Second
)

// keepCertificate models runtime/cluster/certificate, whose keys are random: it requests another certificate when 80 %
// of the lifetime is over, and records each certificate. Each reason for a failure is recorded once.
func (m *member) keepCertificate(p *proc) {
	c, reported := &m.run.certificate, ""
	for {
		p.sleep(certificateCheck)
		if now := m.run.clock.Now(); now.Before(c.from.Add(certificateLasts * 4 / 5)) {
			continue
		}
		fact := &journaletv1.CertificateChanged{Kind: journaletv1.CertificateKind_CERTIFICATE_KIND_CLIENT}
		if err := m.request("create", func(*apiServer) error { return nil }); err != nil {
			if fact.Message = err.Error(); fact.Message != reported {
				reported = fact.Message
				_ = m.run.emit(messages.Agent, fact) // it does not fail
			}
			continue
		}
		reported = ""
		c.from, c.number = m.run.clock.Now(), c.number+1
		c.until = c.from.Add(certificateLasts)
		fact.NotBefore, fact.NotAfter = timestamppb.New(c.from), timestamppb.New(c.until)
		_ = m.run.emit(messages.Agent, fact) // it does not fail
	}
}
