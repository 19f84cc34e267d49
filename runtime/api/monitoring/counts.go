package monitoring

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts are the values at the moment of a scrape.
type Counts struct {
	// Actors by kind, in lower case.
	Actors map[string]int
	// Lagging are mailboxes that were full and whose actors catch up from the journal.
	Lagging int
	// Backlog is how many records wait in the fullest mailbox.
	Backlog int
	// Quarantined are quarantined actors.
	Quarantined int
	// Unanswered are pods whose actors did not answer in time: RunningPods and Containers leave them out.
	Unanswered int
	// RunningPods have a ready sandbox; Containers are counted by state: created, running, exited, unknown.
	RunningPods int
	Containers  map[string]int
	// Desired are pods of the sources, Active admitted pods that have not terminated: pods of the API server under "",
	// others under "true". Mirrors are the pods that are to have a mirror pod; without a cluster no pod is.
	Desired, Active map[string]int
	Mirrors         int
	// Volumes of pods.
	Volumes map[VolumeCount]int
	// Certificates are sources podCertificate; nil without a cluster.
	Certificates map[CertificateCount]int

	// Queued are records that are not stored yet.
	Queued int
	// FirstRecord and LastRecord are the numbers of the oldest and the newest record.
	FirstRecord, LastRecord uint64
	// Bytes of stored messages, by store: journal, manifests, snapshots. Empty if they could not be measured.
	Bytes map[string]uint64
	// SnapshotsAt is when the newest snapshot was stored; zero: unknown, or no snapshot.
	SnapshotsAt time.Time

	// Observers are connected observers. Waiting records are stored and not sent to them yet; Lag is how long the oldest
	// of them has waited. Missed records were never sent, Sent counts events.
	Observers, Waiting int
	Lag                time.Duration
	Missed, Sent       uint64
}

// VolumeCount is what volumes are counted by: the kubelet's name of the plugin, and whether they are of
// DesiredVolumes or of ActualVolumes.
type VolumeCount struct{ Plugin, State string }

// States of a VolumeCount, in the kubelet's words.
const (
	// DesiredVolumes are the volumes in the manifests of admitted pods that have not terminated.
	DesiredVolumes = "desired_state_of_world"
	// ActualVolumes are set up.
	ActualVolumes = "actual_state_of_world"
)

// CertificateCount is what sources podCertificate are counted by: the signer, and the kubelet's word for the state of
// the certificate.
type CertificateCount struct{ Signer, State string }

// counted is one metric that is read from Counts.
type counted struct {
	Metric
	// values passes each value, with its label if the metric has one, to send.
	values func(c *Counts, send func(v float64, label ...string))
	desc   *prometheus.Desc
}

func one(name, kind, help string, value func(c *Counts) float64) *counted {
	return &counted{Metric: Metric{Name: name, Type: kind, Help: help},
		values: func(c *Counts, send func(float64, ...string)) { send(value(c)) }}
}

func each[T int | uint64](name, help, label string, values func(c *Counts) map[string]T) *counted {
	return &counted{Metric: Metric{Name: name, Type: "gauge", Help: help, Labels: []string{label}},
		values: func(c *Counts, send func(float64, ...string)) {
			for k, v := range values(c) {
				send(float64(v), k)
			}
		}}
}

// countedMetrics returns what is read from Counts.
func countedMetrics() []*counted {
	const gauge, counter = "gauge", "counter"
	return []*counted{
		each("journalet_actors", "Running actors by kind.", "kind", func(c *Counts) map[string]int { return c.Actors }),
		one("journalet_mailbox_lagging", gauge, "Actors that read the journal to catch up after their mailbox was full.",
			func(c *Counts) float64 { return float64(c.Lagging) }),
		one("journalet_mailbox_backlog", gauge, "Records that wait in the fullest mailbox of an actor.",
			func(c *Counts) float64 { return float64(c.Backlog) }),
		one("journalet_actors_quarantined", gauge, "Quarantined actors.",
			func(c *Counts) float64 { return float64(c.Quarantined) }),
		one("journalet_pods_unanswered", gauge,
			"Pods whose actors did not answer this scrape: kubelet_running_pods and _containers leave them out.",
			func(c *Counts) float64 { return float64(c.Unanswered) }),
		one("kubelet_running_pods", gauge, "Pods with a ready sandbox.",
			func(c *Counts) float64 { return float64(c.RunningPods) }),
		each("kubelet_running_containers", "Containers by state.", "container_state",
			func(c *Counts) map[string]int { return c.Containers }),

		each("kubelet_desired_pods", "Pods that the sources name; static is true for pods that are not of the API server.",
			"static", func(c *Counts) map[string]int { return c.Desired }),
		each("kubelet_active_pods", "Pods that are admitted and have not terminated; static as in kubelet_desired_pods.",
			"static", func(c *Counts) map[string]int { return c.Active }),
		one("kubelet_mirror_pods", gauge, "Static pods that are to have a mirror pod.",
			func(c *Counts) float64 { return float64(c.Mirrors) }),
		{Metric: Metric{Name: "volume_manager_total_volumes", Type: gauge, Labels: []string{"plugin_name", "state"},
			Help: "Volumes of pods that are to be set up, and that are; the plugin of a claim is N/A."},
			values: func(c *Counts, send func(float64, ...string)) {
				for k, n := range c.Volumes {
					send(float64(n), k.Plugin, k.State)
				}
			}},
		{Metric: Metric{Name: "kubelet_podcertificate_states", Type: gauge, Labels: []string{"signer_name", "state"},
			Help: "Sources podCertificate of pods: not_yet_issued, fresh, overdue_for_refresh, expired, denied, failed."},
			values: func(c *Counts, send func(float64, ...string)) {
				for k, n := range c.Certificates {
					send(float64(n), k.Signer, k.State)
				}
			}},

		one("journalet_journal_queued", gauge, "Records that are not stored yet.",
			func(c *Counts) float64 { return float64(c.Queued) }),
		one("journalet_journal_first_record", gauge, "Number of the journal's oldest record.",
			func(c *Counts) float64 { return float64(c.FirstRecord) }),
		one("journalet_journal_last_record", gauge, "Number of the journal's newest record.",
			func(c *Counts) float64 { return float64(c.LastRecord) }),
		each("journalet_store_bytes", "Bytes of stored messages with their headers: journal, manifests, snapshots.", "store",
			func(c *Counts) map[string]uint64 { return c.Bytes }),
		{Metric: Metric{Name: "journalet_snapshots_timestamp_seconds", Type: gauge,
			Help: "Unix time at which the newest snapshot was stored. None before the first."},
			values: func(c *Counts, send func(float64, ...string)) {
				if !c.SnapshotsAt.IsZero() {
					send(float64(c.SnapshotsAt.UnixMilli()) / 1000)
				}
			}},

		one("journalet_observers_connections", gauge, "Connected observers.",
			func(c *Counts) float64 { return float64(c.Observers) }),
		one("journalet_observers_waiting_records", gauge, "Stored records whose events are not sent to observers yet.",
			func(c *Counts) float64 { return float64(c.Waiting) }),
		one("journalet_observers_lag_seconds", gauge, "How long the oldest of these records has waited.",
			func(c *Counts) float64 { return c.Lag.Seconds() }),
		one("journalet_observers_events_total", counter, "Events that were sent to observers.",
			func(c *Counts) float64 { return float64(c.Sent) }),
		one("journalet_observers_missed_records_total", counter,
			"Records that were not sent to connected observers, because they request more than their share.",
			func(c *Counts) float64 { return float64(c.Missed) }),
	}
}

// countCollector turns Counts into metrics.
type countCollector struct {
	m   *Metrics
	all []*counted
}

func (m *Metrics) newCounts() {
	c := &countCollector{m, countedMetrics()}
	for _, k := range c.all {
		m.catalog = append(m.catalog, k.Metric)
		k.desc = prometheus.NewDesc(k.Name, k.Help, k.Labels, nil)
	}
	m.MustRegister(c)
}

// Count sets the source of the values at a scrape. f is called at each one and should return at once.
func (m *Metrics) Count(f func() Counts) { m.counts.Store(&f) }

// Describe sends the descriptions of the metrics.
func (c *countCollector) Describe(out chan<- *prometheus.Desc) {
	for _, k := range c.all {
		out <- k.desc
	}
}

// Collect sends the current values.
func (c *countCollector) Collect(out chan<- prometheus.Metric) {
	f := c.m.counts.Load()
	if f == nil {
		return
	}
	n := (*f)()
	for _, k := range c.all {
		kind := prometheus.GaugeValue
		if k.Type == "counter" {
			kind = prometheus.CounterValue
		}
		k.values(&n, func(v float64, label ...string) {
			out <- prometheus.MustNewConstMetric(k.desc, kind, v, label...)
		})
	}
}
