package replay

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// forged is a journal with other bytes for some records; nil: the record is missing.
type forged struct {
	*history.Memory
	bytes map[uint64][]byte
}

func (f forged) Read(ctx context.Context, from, to uint64, do func(history.Entry) error) error {
	return f.Memory.Read(ctx, from, to, func(e history.Entry) error {
		b, ok := f.bytes[e.Seq]
		switch {
		case !ok:
			return do(e)
		case b == nil:
			return nil
		}
		return do(history.Entry{Seq: e.Seq, Bytes: b})
	})
}

// survives replays a journal in every way: whatever it holds, the result is a report or an error.
func survives(t *testing.T, src history.Reader) {
	t.Helper()
	ctx := t.Context()
	_, _ = Check(ctx, src, Options{})
	_, _ = WhatIf(ctx, src, func(c *journaletv1.AgentConfig) { c.MaxPods = 3 }, Options{})
	for _, ref := range []messages.Ref{messages.Node, messages.Runtime, messages.Pod("uid-0")} {
		_, _ = StateAt(ctx, src, ref, 0)
	}
	_, _ = Incarnations(ctx, src, "p1")
	s, err := Open(ctx, src, Options{})
	if err != nil {
		return
	}
	_, last := s.Bounds()
	for _, ref := range s.Actors()[:min(len(s.Actors()), 4)] {
		_, _ = s.State(ref, last)
		_, _ = s.Diff(ref, last/2, last)
	}
	_, _ = s.Causes(last)
	s.Search("p1", 0, true)
}

func TestDamagedRecordsAreReportsOrErrors(t *testing.T) {
	src := simulated()
	random := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		f := forged{src, map[uint64][]byte{}}
		for range 1 + random.IntN(3) {
			rec := src.Records[random.IntN(len(src.Records))]
			b, err := messages.Encode(rec)
			if err != nil {
				t.Fatal(err)
			}
			switch b = slices.Clone(b); random.IntN(4) {
			case 0:
				b = nil
			case 1: // the content of another record, under this number
				other := src.Records[random.IntN(len(src.Records))]
				moved := &journaletv1.Record{Seq: rec.GetSeq(), Epoch: rec.GetEpoch(), Time: rec.GetTime(),
					Actor: other.GetActor(), Body: other.GetBody()}
				b, _ = messages.Encode(moved)
			default:
				for range 1 + random.IntN(4) {
					b[random.IntN(len(b))] ^= 1 << random.IntN(8)
				}
			}
			f.bytes[rec.GetSeq()] = b
		}
		survives(t, f)
	}
}

// FuzzRecord puts any bytes in the place of a record.
func FuzzRecord(f *testing.F) {
	src := simulated()
	for i := 0; i < len(src.Records); i += 7 {
		b, err := messages.Encode(src.Records[i])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint(i), b)
	}
	short := *src
	short.Records = src.Records[:min(len(src.Records), 300)]
	f.Fuzz(func(t *testing.T, i uint, b []byte) {
		seq := short.Records[i%uint(len(short.Records))].GetSeq()
		survives(t, forged{&short, map[uint64][]byte{seq: b}})
	})
}
