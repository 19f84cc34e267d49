package bus

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// chainOf encodes records as the appender does.
func chainOf(t *testing.T, recs ...*journaletv1.Record) [][]byte {
	t.Helper()
	var out [][]byte
	var prev []byte
	for i, rec := range recs {
		rec.PreviousHash = prev
		if rec.Seq == 0 {
			rec.Seq = uint64(i + 1)
		}
		if rec.Epoch == 0 {
			rec.Epoch = 1
		}
		b, err := messages.Encode(rec)
		must.OK(t, err)
		out = append(out, b)
		prev = messages.Hash(b)
	}
	return out
}

func TestVerifyFindsDefects(t *testing.T) {
	p := messages.Pod("p")
	facts := func(n int) []*journaletv1.Record {
		var out []*journaletv1.Record
		for i := range n {
			out = append(out, fact(p, int64(i)))
		}
		return out
	}
	withEpochs := facts(3)
	withEpochs[1].Epoch = 5
	changed := chainOf(t, facts(4)...)
	rec := &journaletv1.Record{}
	must.OK(t, proto.Unmarshal(changed[1], rec))
	rec.Time.Seconds++
	var err error
	if changed[1], err = messages.Encode(rec); err != nil {
		t.Fatal(err)
	}
	good := chainOf(t, facts(4)...)
	cases := map[string]struct {
		records [][]byte
		seq     uint64
		want    string
	}{
		"a gap":                   {[][]byte{good[0], good[1], good[3]}, 3, "records 3 to 3 are missing"},
		"a changed record":        {changed, 3, "does not chain"},
		"garbage":                 {[][]byte{good[0], []byte("\xff\xff"), good[2]}, 2, "cannot be read"},
		"a falling epoch":         {chainOf(t, withEpochs...), 3, "epoch 1, after one of epoch 5"},
		"a step caused by itself": {chainOf(t, fact(p, 0), step(p, 2, 0)), 2, "is caused by record 2"},
		"causes out of order":     {chainOf(t, fact(p, 0), fact(p, 1), step(p, 1, 2)), 3, "after record 2"},
		"a repeated record":       {[][]byte{good[0], good[1], good[1]}, 3, "has the number 2"},
		"another journal's head":  {good, 4, "the journal's head"},
	}
	for name, c := range cases {
		v := &verifier{at: 1, head: &journaletv1.Head{Seq: 4, Hash: []byte("other")}}
		for _, b := range c.records {
			v.check(examinedRecord(b))
		}
		if v.r.OK() || v.r.Problems[0].Seq != c.seq || !strings.Contains(v.r.Problems[0].Message, c.want) {
			t.Errorf("%s: %+v", name, v.r.Problems)
		}
	}
	v := &verifier{at: 1, head: &journaletv1.Head{Seq: 4, Hash: messages.Hash(good[3])}}
	for _, b := range good {
		v.check(examinedRecord(b))
	}
	if !v.r.OK() {
		t.Errorf("a sound journal: %+v", v.r.Problems)
	}
}

func damaged(actor messages.Ref, d *journaletv1.JournalDamaged) *journaletv1.Record {
	return &journaletv1.Record{Time: at(9), Actor: actor.Proto(),
		Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(d)}}
}

// Blocks hold records 1 to 15, 16 to 30 and 31 to 34.
func TestReportedLossIsNoProblem(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir string)
		want Loss
	}{
		"all blocks": {func(t *testing.T, dir string) { removeAll(t, streamDir(dir, journalStream), true) },
			Loss{1, 34, 35}},
		"all blocks, index left": {removeBlocks(1, 2, 3), Loss{1, 34, 35}},
		"all streams": {func(t *testing.T, dir string) { removeAll(t, filepath.Join(dir, "jetstream"), false) },
			Loss{1, 34, 35}},
		"the first block":   {removeBlocks(1), Loss{1, 15, 35}},
		"the last block":    {removeBlocks(3), Loss{31, 34, 35}},
		"the newest record": {flip(3, 1700<<10), Loss{34, 34, 35}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := busDir(t)
			b := openBus(t, dir, rareSync)
			appendWide(t, b, 34)
			closeBus(t, b)
			c.harm(t, dir)
			b = openBus(t, dir, rareSync)
			d := b.Opening().Damage
			wantVerified := func(ok bool, lost ...Loss) {
				t.Helper()
				must.OK(t, b.Journal().Flush(testContext(t)))
				r, err := b.Journal().Verify(testContext(t), nil)
				if err != nil || r.OK() != ok || ok && len(r.Problems) > 0 || !slices.Equal(r.Lost, lost) {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			wantVerified(false)
			must.OK(t, b.Journal().Append(damaged(messages.Agent, d)))
			appendFacts(t, b, 3)
			wantVerified(true, c.want)
			closeBus(t, b)
			if v, _ := verifyAndMeasure(t, dir); !v.OK() || !slices.Equal(v.Lost, []Loss{c.want}) || v.Last != 38 {
				t.Fatalf("from the files: %+v", v)
			}
			b = openBus(t, dir)
			if o := b.Opening(); o.Damage != nil || !o.Clean {
				t.Fatalf("reported again: %+v", o)
			}
			appendFacts(t, b, 1)
			wantVerified(true, c.want)
			closeBus(t, b)
			removeAll(t, streamDir(dir, journalStream), true) // lose all blocks again
			b = openBus(t, dir)
			wantVerified(false)
			must.OK(t, b.Journal().Append(damaged(messages.Agent, b.Opening().Damage)))
			wantVerified(true, Loss{1, 39, 40})
		})
	}
}

func removeBlocks(numbers ...uint64) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		for _, n := range numbers {
			remove(t, (&blocks{dir: streamDir(dir, journalStream)}).path(n))
		}
	}
}

func TestLossIsNoProblemOnlyIfReportedExactly(t *testing.T) {
	p := messages.Pod("p")
	for name, c := range map[string]struct {
		missing []uint64
		report  *journaletv1.Record // the sixth, as found when the fifth was the last
		lost    []Loss
	}{
		"the whole": {[]uint64{1, 2, 3, 4, 5},
			damaged(messages.Agent, &journaletv1.JournalDamaged{ExpectedSeq: 5}), []Loss{{1, 5, 6}}},
		"the oldest": {[]uint64{1, 2},
			damaged(messages.Agent, &journaletv1.JournalDamaged{ExpectedSeq: 1, FoundSeq: 3}), []Loss{{1, 2, 6}}},
		"the end": {[]uint64{4, 5},
			damaged(messages.Agent, &journaletv1.JournalDamaged{ExpectedSeq: 5, FoundSeq: 3}), []Loss{{4, 5, 6}}},
		"one of two": {[]uint64{2, 5},
			damaged(messages.Agent, &journaletv1.JournalDamaged{ExpectedSeq: 5, FoundSeq: 4}), []Loss{{5, 5, 6}}},
		"more than the end": {[]uint64{3, 4, 5},
			damaged(messages.Agent, &journaletv1.JournalDamaged{ExpectedSeq: 5, FoundSeq: 3}), nil},
		"less than the oldest": {[]uint64{1, 2},
			damaged(messages.Agent, &journaletv1.JournalDamaged{ExpectedSeq: 1, FoundSeq: 2}), nil},
		"a gap within": {[]uint64{3}, damaged(messages.Agent, &journaletv1.JournalDamaged{ExpectedSeq: 5, FoundSeq: 4}),
			nil},
		"reported by a pod": {[]uint64{4, 5}, damaged(p, &journaletv1.JournalDamaged{ExpectedSeq: 5, FoundSeq: 3}), nil},
		"another record":    {[]uint64{1, 2, 3, 4, 5}, fact(p, 6), nil},
	} {
		t.Run(name, func(t *testing.T) {
			all := chainOf(t, fact(p, 1), fact(p, 2), fact(p, 3), fact(p, 4), fact(p, 5), c.report)
			v := &verifier{at: 1, head: &journaletv1.Head{Seq: 6, Hash: messages.Hash(all[5])}}
			v.r.First, v.r.Last = 1, 6
			for i, b := range all {
				if !slices.Contains(c.missing, uint64(i+1)) {
					v.check(examinedRecord(b))
				}
			}
			r := v.end()
			if !slices.Equal(r.Lost, c.lost) || r.Found != len(r.Problems) ||
				r.OK() != (len(c.lost) == 1 && name != "one of two") {
				t.Fatalf("%+v", r)
			}
		})
	}
}

func examinedRecord(b []byte) *examined {
	x := examine(b, nil, "")
	return &x
}
