package bus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/observing"
)

// percentile returns the given percentile of durations, in milliseconds.
func percentile(all []time.Duration, percent int) float64 {
	slices.Sort(all)
	return float64(all[len(all)*percent/100].Microseconds()) / 1000
}

// published opens a bus whose stored records go to observers, as the agent's do, and then to stored.
func published(b *testing.B, stored func()) *Bus {
	b.Helper()
	bus := openBus(b, busDir(b), func(o *Options) { o.Sync = SyncPolicy{Always: true} })
	bus.Journal().OnStored(func(recs []*journaletv1.Record) {
		for _, r := range recs {
			bus.Observers().Publish(r)
		}
		stored()
	})
	return bus
}

// BenchmarkLiveTail measures how long after its append an event reaches an observer, at a steady rate of records: p99
// is to be at most 50 ms.
func BenchmarkLiveTail(b *testing.B) {
	for _, perSecond := range []int{50, 500} {
		b.Run(fmt.Sprintf("records=%d/s", perSecond), func(b *testing.B) {
			bus := published(b, func() {})
			nc, err := Listen(b.Context(), bus.opts.Dir)
			must.OK(b, err)
			defer nc.Close()
			var appended sync.Map // by seq
			behind := make(chan time.Duration, 1<<16)
			_, err = nc.Subscribe(messages.EventFilter(testNode), func(m *nats.Msg) {
				var e struct {
					Seq uint64 `json:"seq"`
				}
				if err := json.Unmarshal(m.Data, &e); err != nil {
					b.Error(err)
				}
				at, _ := appended.Load(e.Seq)
				behind <- time.Since(at.(time.Time))
			})
			must.OK(b, err)
			must.OK(b, nc.Flush())
			tick := time.NewTicker(time.Second / time.Duration(perSecond))
			defer tick.Stop()
			var all []time.Duration
			for i := 0; b.Loop(); i++ {
				<-tick.C
				appended.Store(uint64(i+1), time.Now())
				must.OK(b, bus.Journal().Append(benchRecord(i)))
				if i%perSecond == perSecond-1 {
					all = append(all, <-behind)
					for len(behind) > 0 {
						all = append(all, <-behind)
					}
				}
			}
			for len(all) < b.N {
				all = append(all, <-behind)
			}
			must.OK(b, bus.Journal().Flush(b.Context()))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(percentile(all, 50), "ms-p50")
			b.ReportMetric(percentile(all, 99), "ms-p99")
			b.ReportMetric(float64(bus.Observers().Missed()), "missed")
		})
	}
}

const (
	filteredObservers = 10
	hopsPerRound      = 300
)

// BenchmarkAppendBesideFilteredObservers appends one record after the other, in rounds: without observers, beside ten
// observers that each filter the events of one kind, and beside one that does not read. The p99 of an append is to rise
// by at most 25 % beside the ten, and not at all beside the one. The three take turns, so that what else the machine
// does meets each.
func BenchmarkAppendBesideFilteredObservers(b *testing.B) {
	stored := make(chan struct{}, 1)
	bus := published(b, func() { stored <- struct{}{} })
	seq := 0
	round := func() (took []time.Duration) {
		for range hopsPerRound {
			seq++
			begun := time.Now()
			must.OK(b, bus.Journal().Append(benchRecord(seq)))
			<-stored
			took = append(took, time.Since(begun))
		}
		return took
	}
	join := map[string]func() func(){
		"alone":    func() func() { return func() {} },
		"filtered": func() func() { return filtered(b, bus) },
		"stalled":  func() func() { return stalled(b, bus) },
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for name := range join { // in any order
			leave := join[name]()
			round() // warms up, and fills the buffers of an observer that does not read
			took[name] = append(took[name], round()...)
			leave()
		}
	}
	b.ReportMetric(0, "ns/op")
	alone := percentile(took["alone"], 99)
	b.ReportMetric(percentile(took["alone"], 50), "ms-p50-alone")
	b.ReportMetric(alone, "ms-p99-alone")
	for _, name := range []string{"filtered", "stalled"} {
		p99 := percentile(took[name], 99)
		b.ReportMetric(p99, "ms-p99-"+name)
		b.ReportMetric(100*(p99/alone-1), "%-"+name)
	}
}

// filtered connects the ten: each receives one kind of event, of all pods. One of them is what is appended.
func filtered(b *testing.B, bus *Bus) (leave func()) {
	b.Helper()
	var received atomic.Int64
	var conns []*nats.Conn
	for i := range filteredObservers {
		nc, err := Listen(b.Context(), bus.opts.Dir)
		must.OK(b, err)
		event := []string{"pod_observed", "call_finished", "pod_status_changed", "probe_result", "call_requested"}[i%5]
		subject := messages.EventSubject(testNode, messages.Pod("*"), event)
		_, err = nc.Subscribe(subject, func(*nats.Msg) { received.Add(1) })
		must.OK(b, err)
		must.OK(b, nc.Flush())
		conns = append(conns, nc)
	}
	return func() {
		if received.Load() == 0 {
			b.Error("the observers have received nothing")
		}
		for _, nc := range conns {
			nc.Close()
		}
	}
}

// stalled connects an observer that subscribes to all events and reads none.
func stalled(b *testing.B, bus *Bus) (leave func()) {
	b.Helper()
	conn, err := observing.Stall(bus.opts.Dir)
	must.OK(b, err)
	return func() { _ = conn.Close() }
}

// BenchmarkCPUOfFiftyEventsASecond measures the CPU of the bus alone at 50 events a second, three in two records as a
// pod has them, each record synced to disk, as a share of one core. The floor is a loop that writes as many bytes to a
// file and syncs it. The goal is 1 % of one core.
func BenchmarkCPUOfFiftyEventsASecond(b *testing.B) {
	const perSecond = 50 * 2 / 3 // records
	paced := func(b *testing.B, do func(i int)) {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		begun, used := time.Now(), cpu(b)
		for i := 0; b.Loop(); i++ {
			<-tick.C
			do(i)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(100*(cpu(b)-used).Seconds()/time.Since(begun).Seconds(), "%-of-a-core")
	}
	b.Run("floor", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
		must.OK(b, err)
		defer f.Close()
		line := make([]byte, 600)
		paced(b, func(int) {
			_, err := f.Write(line)
			must.OK(b, err)
			must.OK(b, unix.Fdatasync(int(f.Fd())))
		})
	})
	b.Run("bus", func(b *testing.B) {
		bus := published(b, func() {})
		paced(b, func(i int) {
			rec := benchRecord(i)
			if i%2 == 1 {
				rec = step(messages.RefOf(rec.GetActor()), uint64(i), uint64(i-1))
			}
			must.OK(b, bus.Journal().Append(rec))
		})
	})
}

// cpu returns the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	must.OK(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
