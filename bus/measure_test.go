package bus

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/observing"
)

func TestAppendsAndSyncsAreMeasured(t *testing.T) {
	const slow = 5 * time.Millisecond
	b, err := Prepare(testContext(t), Options{
		Dir: busDir(t), Node: testNode, Log: quiet, Sync: SyncPolicy{Always: true},
	})
	must.OK(t, err)
	t.Cleanup(func() { closeBus(t, b) })
	b.journal.a.link = slowDisk{b.journal.a.link.(*natsLink), slow}
	var records, bytes, synced, atOnce atomic.Int64
	b.Journal().Measure(Meter{
		Appended: func(took time.Duration, n int) {
			records.Add(1)
			bytes.Add(int64(n))
			if took < slow {
				atOnce.Add(1)
			}
		},
		Synced: func(took time.Duration) {
			synced.Add(1)
			if took < slow {
				atOnce.Add(1)
			}
		},
	})
	must.OK(t, b.Begin())
	for i := range 10 {
		must.OK(t, b.Journal().Append(fact(messages.Pod("p"), int64(i))))
	}
	must.OK(t, b.Journal().Flush(testContext(t)))
	size, err := b.Journal().Size(testContext(t))
	must.OK(t, err)
	if records.Load() != 10 || uint64(bytes.Load()) != size.Journal.Bytes {
		t.Errorf("measured %d records of %d bytes, the journal holds %d of %d", records.Load(), bytes.Load(),
			size.Journal.Count, size.Journal.Bytes)
	}
	if n := synced.Load(); n < 1 || n > 10 || atOnce.Load() > 0 {
		t.Errorf("%d syncs; %d measurements are shorter than a sync", n, atOnce.Load())
	}
}

func TestUsageIsWhatTheBusHolds(t *testing.T) {
	b := openBus(t, busDir(t))
	before := time.Now().Add(-time.Second)
	must.OK(t, b.Journal().Append(fact(messages.Pod("p"), 1)))
	must.OK(t, b.Journal().Flush(testContext(t)))
	u, err := b.Usage(testContext(t))
	must.OK(t, err)
	if u.First != 1 || u.Last != 1 || u.JournalBytes == 0 || u.SnapshotsBytes != 0 || !u.SnapshotsAt.IsZero() {
		t.Errorf("before the first snapshot: %+v", u)
	}
	must.OK(t, b.Snapshots().Save(testContext(t), 1, []*journaletv1.Snapshot{{Actor: messages.Pod("p").Proto()}}))
	u, err = b.Usage(testContext(t))
	must.OK(t, err)
	if u.SnapshotsBytes == 0 || u.SnapshotsAt.Before(before) || u.SnapshotsAt.After(time.Now().Add(time.Second)) {
		t.Errorf("after it: %+v", u)
	}
	// The sizes are the sizes of the files, except the store's own indexes.
	info, err := os.Stat(filepath.Join(streamDir(b.opts.Dir, journalStream), "1.blk"))
	must.OK(t, err)
	if uint64(info.Size()) != u.JournalBytes {
		t.Errorf("the block has %d bytes, want %d", info.Size(), u.JournalBytes)
	}
}

func TestFanoutCountsObserversAndWhatTheyWaitFor(t *testing.T) {
	b := openBus(t, busDir(t))
	if f := b.Observers().Fanout(); f != (Fanout{}) {
		t.Errorf("without observers: %+v", f)
	}
	crowd, err := observing.Join(b.opts.Dir, 2, 1)
	must.OK(t, err)
	defer crowd.Leave()
	o := newObservers(testNode, b.conns[3], b.accounts, quiet) // whose publisher does not run
	o.Publish(fact(messages.Pod("p"), 1))
	o.waiting[0].since = time.Now().Add(-time.Minute)
	o.Publish(fact(messages.Pod("p"), 2)) // a wait beyond maxWait drops both
	o.Publish(fact(messages.Pod("p"), 3))
	if f := o.Fanout(); f.Connections != 2 || f.Waiting != 1 || f.Lag > time.Minute || f.Missed != 2 || f.Sent != 0 {
		t.Errorf("with two observers and a publisher that hangs: %+v", f)
	}
}
