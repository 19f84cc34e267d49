package load

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/observing"
)

const (
	burstPods = 300
	observers = 60
	// subscriptions is what each of the observers requests.
	subscriptions = 200
)

// BenchmarkBurstBesideObservers measures a burst of pods on an agent without observers and on one with a crowd of them
// that reads well, how long an append takes meanwhile, and what the observers miss. The goal is at most 1.25 times the
// time without.
func BenchmarkBurstBesideObservers(b *testing.B) {
	for _, with := range []int{0, observers} {
		b.Run(fmt.Sprintf("observers=%d", with), func(b *testing.B) {
			var took time.Duration
			var appends, missed, mib float64
			for range b.N {
				n := newNode(b)
				n.start()
				n.settle(0)
				c, err := observing.Join(filepath.Join(n.dir, "root", "bus"), with, subscriptions)
				must.OK(b, err)
				began := time.Now()
				for i := range burstPods {
					n.put(podName(i), "", 0)
				}
				n.await("all pods running", func(r map[string]int) bool { return len(r) == burstPods })
				took += time.Since(began)
				page := n.page("/metrics")
				appends += 1000 * value(page, "journalet_journal_append_seconds_sum") /
					value(page, "journalet_journal_append_seconds_count")
				missed += value(page, "journalet_observers_missed_records_total")
				mib += float64(c.Bytes()) / (1 << 20)
				c.Leave()
				n.kill()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.Seconds()/float64(b.N), "s-burst")
			b.ReportMetric(appends/float64(b.N), "ms/append")
			b.ReportMetric(missed/float64(b.N), "missed")
			b.ReportMetric(mib/float64(b.N), "MiB-received")
		})
	}
}

// value returns a metric's value, NaN if the page has none.
func value(page, name string) float64 {
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(page)
	if m == nil {
		return math.NaN()
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return math.NaN()
	}
	return f
}
