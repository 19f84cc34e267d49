package bus

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
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
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
		prev = messages.Hash(b)
	}
	return out
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
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
	if err := proto.Unmarshal(changed[1], rec); err != nil {
		t.Fatal(err)
	}
	rec.Time.Seconds++
	var err error
	if changed[1], err = messages.Encode(rec); err != nil {
		t.Fatal(err)
	}
	good := chainOf(t, facts(4)...)
	cases := map[string]struct {
		records [][]byte
		seq     uint64
		word    string
	}{
		"a hole":              {[][]byte{good[0], good[1], good[3]}, 3, "records 3 to 3 are missing"},
		"a changed one":       {changed, 3, "does not follow"},
		"rubbish":             {[][]byte{good[0], []byte("\xff\xff"), good[2]}, 2, "cannot be read"},
		"a falling epoch":     {chainOf(t, withEpochs...), 3, "epoch 1, after one of epoch 5"},
		"an answer to itself": {chainOf(t, fact(p, 0), step(p, 2, 0)), 2, "answers record 2"},
		"an order backwards":  {chainOf(t, fact(p, 0), fact(p, 1), step(p, 1, 2)), 3, "after record 2"},
		"twice":               {[][]byte{good[0], good[1], good[1]}, 3, "says that it is 2"},
		"another's head":      {good, 4, "the head beside the journal"},
	}
	for name, c := range cases {
		v := &verifier{at: 1, head: &journaletv1.Head{Seq: 4, Hash: []byte("other")}}
		for _, b := range c.records {
			v.check(b)
		}
		if v.r.OK() || v.r.Problems[0].Seq != c.seq || !strings.Contains(v.r.Problems[0].Message, c.word) {
			t.Errorf("%s: %+v", name, v.r.Problems)
		}
	}
	v := &verifier{at: 1, head: &journaletv1.Head{Seq: 4, Hash: messages.Hash(good[3])}}
	for _, b := range good {
		v.check(b)
	}
	if !v.r.OK() {
		t.Errorf("a sound journal: %+v", v.r.Problems)
	}
}
