package bus

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestReadReturnsRecordsInAppendOrder(t *testing.T) {
	b := openBus(t, busDir(t))
	var h received
	j := b.Journal()
	j.OnStored(h.add)
	const n = 2000
	for i := range n {
		must.OK(t, j.Append(fact(messages.Pod("p"), int64(i))))
	}
	must.OK(t, j.Flush(testContext(t)))
	wantSeqs(t, h.seqs(), 1, n)
	var read []uint64
	i := 0
	err := j.Read(testContext(t), 0, 0, "", func(rec *journaletv1.Record, size int) error {
		if !proto.Equal(rec, h.recs[i]) || size != proto.Size(rec) {
			t.Fatalf("record %d was read as %v (%d bytes), stored as %v", i, rec, size, h.recs[i])
		}
		i++
		read = append(read, rec.GetSeq())
		return nil
	})
	must.OK(t, err)
	wantSeqs(t, read, 1, n)
	if j.Last() != n || j.First() != 1 {
		t.Fatalf("the journal says it holds %d to %d", j.First(), j.Last())
	}
	report, err := j.Verify(testContext(t), nil)
	if err != nil || !report.OK() || report.Records != n {
		t.Fatalf("verify: %+v, %v", report, err)
	}
}

func TestConcurrentAppendsGetOneOrderWithoutGaps(t *testing.T) {
	b := openBus(t, busDir(t), func(o *Options) { o.Sync = SyncPolicy{Interval: maxSyncInterval} })
	var h received
	b.Journal().OnStored(h.add)
	var wg sync.WaitGroup
	const writers, each = 8, 1000
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				if err := b.Journal().AppendFact(testContext(t), fact(messages.Pod(string(rune('a'+w))), int64(i))); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	must.OK(t, b.Journal().Flush(testContext(t)))
	wantSeqs(t, h.seqs(), 1, writers*each)
	next := make(map[string]int64)
	for _, r := range h.recs {
		id := r.GetActor().GetId()
		if got := r.GetTime().GetSeconds() - at(0).GetSeconds(); got != next[id] {
			t.Fatalf("writer %s: %d came where %d was due", id, got, next[id])
		}
		next[id]++
	}
}

func TestReadsStayWithinTheirBoundsAndFilter(t *testing.T) {
	b := openBus(t, busDir(t))
	j := b.Journal()
	for i := range 500 {
		r := messages.Pod("even")
		if i%2 == 0 { // numbers begin at 1
			r = messages.Pod("odd")
		}
		must.OK(t, j.Append(fact(r, int64(i))))
	}
	must.OK(t, j.Flush(testContext(t)))
	var got []uint64
	collect := func(rec *journaletv1.Record, _ int) error { got = append(got, rec.GetSeq()); return nil }
	must.OK(t, j.Read(testContext(t), 10, 20, messages.ActorFilter(testNode, messages.Pod("even")), collect))
	if len(got) != 6 || got[0] != 10 || got[5] != 20 {
		t.Fatalf("even records from 10 to 20: %v", got)
	}
	got = nil
	must.OK(t, j.Read(testContext(t), 490, 9999, "", collect))
	wantSeqs(t, got, 490, 500)
	got = nil
	if err := j.Read(testContext(t), 1, 9, messages.ActorFilter(testNode, messages.Pod("nobody")), collect); err != nil ||
		got != nil {
		t.Fatalf("records of nobody: %v, %v", got, err)
	}
	stop := errors.New("enough")
	if err := j.Read(testContext(t), 1, 0, "", func(*journaletv1.Record, int) error { return stop }); !errors.Is(err,
		stop) {
		t.Fatalf("the reader's own error came back as %v", err)
	}
	tail, err := j.Tail(testContext(t), messages.ActorFilter(testNode, messages.Pod("odd")), 200)
	if err != nil || len(tail) != 200 || tail[199].GetSeq() != 499 || tail[0].GetSeq() != 101 {
		t.Fatalf("the last 200 odd ones: %d of them, %v", len(tail), err)
	}
	if tail, err = j.Tail(testContext(t), "", 3); err != nil || len(tail) != 3 || tail[0].GetSeq() != 498 {
		t.Fatalf("the last 3: %v, %v", tail, err)
	}
	if tail, err = j.Tail(testContext(t), "", MaxTail); err != nil || len(tail) != 500 {
		t.Fatalf("all of them: %d, %v", len(tail), err)
	}
	if rec, err := j.Get(testContext(t), 77); err != nil || rec.GetSeq() != 77 {
		t.Fatalf("get 77: %v, %v", rec, err)
	}
	if _, err := j.Get(testContext(t), 501); err == nil || !strings.Contains(err.Error(), "holds 1 to 500") {
		t.Fatalf("get 501: %v", err)
	}
}

func TestRefusedRecordTakesNoNumber(t *testing.T) {
	b := openBus(t, busDir(t))
	j := b.Journal()
	big := fact(messages.Pod("p"), 0)
	widen(big, messages.MaxRecordBytes)
	bad := []*journaletv1.Record{
		big,
		fact(messages.Ref{}, 0),
		fact(messages.Pod("a.b"), 0),
		fact(messages.Pod(""), 0),
		{Actor: messages.Agent.Proto()},
		{Actor: messages.Agent.Proto(), Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{}}},
	}
	for _, rec := range bad {
		// The parts of a step are taken all or none.
		if err := j.Append(fact(messages.Pod("p"), 0), rec, fact(messages.Pod("p"), 0)); err == nil {
			t.Errorf("%v was taken", rec.GetActor())
		}
		if err := j.AppendFact(testContext(t), rec); err == nil {
			t.Errorf("%v was taken", rec.GetActor())
		}
	}
	appendFacts(t, b, 3)
	if j.Last() != 3 {
		t.Fatalf("the last of 3 records has number %d", j.Last())
	}
}

func TestAcknowledgedRecordsAreInTheBlockFiles(t *testing.T) {
	// What makes an fsync of the block files mean anything: the server wrote before it acknowledged.
	b := openBus(t, busDir(t))
	l := b.journal.a.link.(*natsLink)
	for range 50 {
		appendFacts(t, b, 1)
		rec, err := b.Journal().Get(testContext(t), b.Journal().Last())
		must.OK(t, err)
		want, err := messages.Encode(rec)
		must.OK(t, err)
		file, err := os.ReadFile(l.blocks.path(l.blocks.last))
		must.OK(t, err)
		if !strings.Contains(string(file), string(want)) {
			t.Fatalf("record %d is not in block %d", rec.GetSeq(), l.blocks.last)
		}
	}
}

func TestForceSyncsNewBlocks(t *testing.T) {
	b := openBus(t, busDir(t))
	for i := range 64 { // 32 MiB, several blocks
		rec := fact(messages.Pod("p"), int64(i))
		widen(rec, 512<<10)
		must.OK(t, b.Journal().Append(rec))
	}
	must.OK(t, b.Journal().Flush(testContext(t)))
	bl := b.journal.a.link.(*natsLink).blocks
	if _, err := os.Stat(bl.path(bl.last + 1)); !os.IsNotExist(err) || bl.last < 2 {
		t.Fatalf("the last block forced is %d, the one after it: %v", bl.last, err)
	}
}

func TestSizeSharesSumUpToTheJournal(t *testing.T) {
	b := openBus(t, busDir(t))
	appendFacts(t, b, 10)
	must.OK(t, b.Journal().Append(step(messages.Source("file"), 1, 0)))
	must.OK(t, b.Journal().Flush(testContext(t)))
	r, err := b.Journal().Size(testContext(t))
	must.OK(t, err)
	if r.Journal.Count != 11 || r.JournalDisk < r.Journal.Bytes || len(r.ByKind) != 2 || r.ByKind[0].Name != "pod" ||
		len(r.Pods) != 1 {
		t.Fatalf("%+v", r)
	}
	var sum uint64
	for _, s := range r.ByEvent {
		sum += s.Bytes
	}
	if sum != r.Journal.Bytes {
		t.Fatalf("the events' shares sum up to %d of %d bytes: %+v", sum, r.Journal.Bytes, r.ByEvent)
	}
}

func TestSyncPolicies(t *testing.T) {
	for in, want := range map[string]string{"": "always", "always": "always", "interval:250ms": "interval:250ms",
		"interval:1m": "interval:1m0s"} {
		p, err := ParseSync(in)
		if err != nil || p.String() != want {
			t.Errorf("%q: %v, %v", in, p, err)
		}
	}
	for _, in := range []string{"never", "interval", "interval:", "interval:1ms", "interval:2m", "interval:-1s"} {
		if p, err := ParseSync(in); err == nil {
			t.Errorf("%q was read as %v", in, p)
		}
	}
}
