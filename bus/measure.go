package bus

import (
	"context"
	"time"
)

// Meter receives measurements of the appender. Its functions are called on the appender's goroutine and must return at
// once; nothing is stored meanwhile. A nil one receives nothing.
type Meter struct {
	// Appended receives, for each stored record, the time since it was handed over and its encoded size in bytes.
	Appended func(took time.Duration, bytes int)
	// Synced receives how long it took to force records to disk. Records that were stored at once share one sync. With a
	// sync policy other than always it is never called.
	Synced func(took time.Duration)
}

// Measure sets the receiver of measurements; call it once, before Begin.
func (j *Journal) Measure(m Meter) {
	if l, ok := j.a.link.(*natsLink); ok && !l.always {
		m.Synced = nil
	}
	j.a.meter = m
}

// force forces what was acknowledged to disk, and measures that.
func (a *appender) force() error {
	begun := time.Now()
	err := a.link.force()
	if err == nil && a.meter.Synced != nil {
		a.meter.Synced(time.Since(begun))
	}
	return err
}

// measure measures stored records.
func (a *appender) measure(done []item) {
	if a.meter.Appended == nil {
		return
	}
	now := time.Now()
	for i := range done {
		a.meter.Appended(now.Sub(done[i].since), len(done[i].data))
	}
}

// Usage is what the bus holds.
type Usage struct {
	// First and Last are the numbers of the journal's oldest and newest record.
	First, Last uint64
	// JournalBytes, ManifestsBytes and SnapshotsBytes are the sizes of the stored messages, with the store's headers.
	JournalBytes, ManifestsBytes, SnapshotsBytes uint64
	// SnapshotsAt is when the newest snapshot was stored; zero without one.
	SnapshotsAt time.Time
}

// Usage returns what the bus holds now. It reads no message.
func (b *Bus) Usage(ctx context.Context) (Usage, error) {
	u := Usage{First: b.journal.First(), Last: b.journal.Last()}
	for stream, bytes := range map[string]*uint64{
		journalStream: &u.JournalBytes, manifestStream: &u.ManifestsBytes, snapshotStream: &u.SnapshotsBytes,
	} {
		state, err := b.journal.reader.state(ctx, stream)
		if err != nil {
			return Usage{}, err
		}
		*bytes = state.Bytes
		if stream == snapshotStream && state.Msgs > 0 {
			u.SnapshotsAt = state.LastTime
		}
	}
	return u, nil
}

// Fanout is who receives events now, and how far they are behind.
type Fanout struct {
	// Connections are the connected observers.
	Connections int
	// Waiting are the stored records that are not published yet, Lag is how long the oldest of them has waited.
	Waiting int
	Lag     time.Duration
	// Missed are the records of this run that were not published although an observer was connected, Sent the events
	// that were.
	Missed, Sent uint64
}

// Fanout returns who receives events now.
func (o *Observers) Fanout() Fanout {
	f := Fanout{Connections: o.observer.NumConnections(), Sent: o.sent.Load()}
	o.mu.Lock()
	defer o.mu.Unlock()
	f.Missed, f.Waiting = o.missed, len(o.waiting)
	if len(o.waiting) > 0 {
		f.Lag = time.Since(o.waiting[0].since)
	}
	return f
}
