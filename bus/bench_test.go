package bus

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/observing"
)

var policies = []SyncPolicy{{Always: true}, {Interval: 250 * time.Millisecond}}

// slowDisk adds the latency of a slow disk to each fsync.
type slowDisk struct {
	*natsLink
	takes time.Duration
}

func (s slowDisk) force() error {
	<-time.After(s.takes)
	return s.natsLink.force()
}

func benchRecord(i int) *journaletv1.Record {
	rec := fact(messages.Pod("0c1d2e3f-4a5b-6c7d-8e9f-001122334455"), int64(i))
	for range 3 {
		rec.GetFact().GetPodObserved().Containers = append(rec.GetFact().GetPodObserved().Containers,
			&journaletv1.ContainerObservation{Name: "a-container-of-some-name"})
	}
	return rec
}

// BenchmarkAppend appends with many records queued: the cost of a burst.
func BenchmarkAppend(b *testing.B) {
	for _, p := range policies {
		b.Run(p.String(), func(b *testing.B) { pipelined(b, p, 0) })
	}
	b.Run("always/disk=10ms", func(b *testing.B) { pipelined(b, SyncPolicy{Always: true}, 10*time.Millisecond) })
}

func pipelined(b *testing.B, p SyncPolicy, disk time.Duration) {
	bus := openBus(b, busDir(b), func(o *Options) { o.Sync = p })
	if disk > 0 {
		bus.journal.a.link = slowDisk{bus.journal.a.link.(*natsLink), disk}
	}
	j := bus.Journal()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := j.AppendFact(b.Context(), benchRecord(i)); err != nil {
			b.Fatal(err)
		}
		i++
	}
	if err := j.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkHop appends a record, waits until it is stored, and appends the next: the cost of one decision in a chain.
func BenchmarkHop(b *testing.B) {
	for _, p := range policies {
		b.Run(p.String(), func(b *testing.B) {
			bus := openBus(b, busDir(b), func(o *Options) { o.Sync = p })
			j := bus.Journal()
			stored := make(chan struct{}, 1)
			j.OnStored(func([]*journaletv1.Record) { stored <- struct{}{} })
			var took []time.Duration
			i := 0
			for b.Loop() {
				begin := time.Now()
				must.OK(b, j.Append(benchRecord(i)))
				<-stored
				took = append(took, time.Since(begin))
				i++
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
		})
	}
}

// BenchmarkHopBesideObservers is BenchmarkHop without observers and beside a crowd of them that reads well. The goal is
// a p99 of at most 1.25 times that without.
func BenchmarkHopBesideObservers(b *testing.B) {
	for _, connections := range []int{0, 60} {
		b.Run(fmt.Sprintf("observers=%d", connections), func(b *testing.B) {
			bus := openBus(b, busDir(b))
			crowd, err := observing.Join(bus.opts.Dir, connections, 200)
			if err != nil {
				b.Fatal(err)
			}
			defer crowd.Leave()
			j := bus.Journal()
			stored := make(chan struct{}, 1)
			j.OnStored(func(recs []*journaletv1.Record) {
				for _, r := range recs {
					bus.Observers().Publish(r)
				}
				stored <- struct{}{}
			})
			var took []time.Duration
			i := 0
			for b.Loop() {
				begin := time.Now()
				must.OK(b, j.Append(benchRecord(i)))
				<-stored
				took = append(took, time.Since(begin))
				i++
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
			b.ReportMetric(float64(bus.Observers().Missed()), "missed")
		})
	}
}

// BenchmarkChains is a burst of pods: each takes 14 hops in a row, all of them at once.
func BenchmarkChains(b *testing.B) {
	const hops = 14
	for _, p := range policies {
		for _, disk := range []time.Duration{0, 10 * time.Millisecond} {
			if disk > 0 && !p.Always {
				continue
			}
			b.Run(fmt.Sprintf("%v/disk=%v/pods=50", p, disk), func(b *testing.B) {
				bus := openBus(b, busDir(b), func(o *Options) { o.Sync = p })
				if disk > 0 {
					bus.journal.a.link = slowDisk{bus.journal.a.link.(*natsLink), disk}
				}
				j := bus.Journal()
				done := make(chan struct{}, 64)
				j.OnStored(func(recs []*journaletv1.Record) {
					for _, r := range recs {
						if n := r.GetTime().GetNanos() + 1; n < hops {
							next := benchRecord(0)
							next.Time.Nanos = n
							must.OK(b, j.Append(next))
						} else {
							done <- struct{}{}
						}
					}
				})
				for b.Loop() {
					for range 50 {
						must.OK(b, j.Append(benchRecord(0)))
					}
					for range 50 {
						<-done
					}
				}
			})
		}
	}
}

// BenchmarkRead reads a journal: the cost of recovery and replay for each record.
func BenchmarkRead(b *testing.B) {
	bus := openBus(b, busDir(b), func(o *Options) { o.Sync = policies[1] })
	const n = 20_000
	for i := range n {
		must.OK(b, bus.Journal().Append(benchRecord(i)))
	}
	if err := bus.Journal().Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		got := 0
		err := bus.Journal().Read(b.Context(), 0, 0, "", func(*journaletv1.Record, int) error { got++; return nil })
		if err != nil || got != n {
			b.Fatal(got, err)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "records/s")
}
