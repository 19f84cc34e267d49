package why

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
)

// records is a journal in memory whose records are found by what they hold.
type records struct {
	history.Reader
	b    [][]byte // of the records from 1 on
	kind []journaletv1.ActorKind
}

func (r *records) add(actor messages.Ref, uid string, size int) {
	seq := uint64(len(r.b) + 1)
	e := &journaletv1.Event{Kind: &journaletv1.Event_PodUpdated{PodUpdated: &journaletv1.PodUpdated{
		Pod: &journaletv1.PodRef{Uid: uid, Name: strings.Repeat("x", size)},
	}}}
	rec := &journaletv1.Record{Seq: seq, Actor: actor.Proto(), Body: &journaletv1.Record_Fact{Fact: e}}
	b, err := messages.Encode(rec)
	if err != nil {
		panic(err)
	}
	r.b, r.kind = append(r.b, b), append(r.kind, actor.Kind)
}

func (r *records) Bounds() (first, last uint64) { return 1, uint64(len(r.b)) }

func (r *records) Read(_ context.Context, from, to uint64, f func(history.Entry) error) error {
	for seq := from; seq <= to; seq++ {
		if err := f(history.Entry{Seq: seq, Bytes: r.b[seq-1]}); err != nil {
			return err
		}
	}
	return nil
}

func (r *records) Find(ctx context.Context, texts []string, kind journaletv1.ActorKind, from, to uint64,
	f func(history.Entry) error) error {
	for seq := from; seq <= to; seq++ {
		holds := func(text string) bool { return bytes.Contains(r.b[seq-1], []byte(text)) }
		if r.kind[seq-1] != kind && !slices.ContainsFunc(texts, holds) {
			continue
		}
		if err := f(history.Entry{Seq: seq, Bytes: r.b[seq-1]}); err != nil {
			return err
		}
	}
	return nil
}

// TestStretchesHoldWhatPagesHold reads the records about a pod by stretches, both ways: the same as by pages, also
// where a stretch has too many bytes of the pod to be kept, and with no more of them in memory than may be.
func TestStretchesHoldWhatPagesHold(t *testing.T) {
	const pod, all = "uid-1", 2*stretchRecords + 5000
	for name, size := range map[string]int{"small": 1, "large": 40 << 10} {
		t.Run(name, func(t *testing.T) {
			r := &records{}
			for i := range all {
				switch {
				case i%100 == 7 && i > stretchRecords && i < 2*stretchRecords:
					r.add(messages.Node, pod, size)
				case i%1000 == 3:
					r.add(messages.Pod(pod), pod, 1)
				case i%5000 == 4:
					r.add(messages.Agent, "", 1)
				default:
					r.add(messages.Pod("uid-2"), "uid-2", 1)
				}
			}
			j, plain := newJournal(t.Context(), r, DefaultLimit), newJournal(t.Context(), r, DefaultLimit)
			j.findBy(pod)
			for _, bounds := range [][2]uint64{
				{1, all}, {7, 8}, {stretchRecords - 3, stretchRecords + 2000}, {stretchRecords + 100, 2*stretchRecords + 9},
			} {
				seen := func(into *[]uint64) func(h head, b []byte) bool {
					return func(h head, b []byte) bool {
						if h.author.Kind == journaletv1.ActorKind_ACTOR_KIND_AGENT || bytes.Contains(b, []byte(pod)) {
							*into = append(*into, h.seq)
						}
						return false
					}
				}
				var ahead, back, want []uint64
				must.OK(t, j.forwardOf(pod, bounds[0], bounds[1], seen(&ahead)))
				_, err := j.backwardOf(pod, bounds[0], bounds[1], seen(&back))
				must.OK(t, err)
				must.OK(t, plain.forward(bounds[0], bounds[1], seen(&want)))
				slices.Reverse(back)
				if !slices.Equal(ahead, want) || !slices.Equal(back, want) {
					t.Fatalf("%v: %d records ahead and %d back, want %d", bounds, len(ahead), len(back), len(want))
				}
				if j.kept > keptBytes {
					t.Fatalf("%d bytes are kept, at most %d may be", j.kept, keptBytes)
				}
			}
			dense := 0
			for _, p := range j.pages {
				if p.dense {
					dense++
				}
			}
			if want := map[string]int{"small": 0, "large": 1}[name]; dense != want {
				t.Errorf("%d stretches are read by pages, want %d: %s", dense, want, fmt.Sprint(j.used))
			}
		})
	}
}

// A search ends with the record that its function accepts, also in a stretch that is read by pages.
func TestSearchEndsWithItsRecord(t *testing.T) {
	const pod = "uid-1"
	r := &records{}
	for range stretchRecords {
		r.add(messages.Pod(pod), pod, 300)
	}
	j := newJournal(t.Context(), r, DefaultLimit)
	j.findBy(pod)
	passed := 0
	third := func(head, []byte) bool { passed++; return passed == 3 }
	must.OK(t, j.forwardOf(pod, 100, stretchRecords-1, third))
	if passed != 3 {
		t.Errorf("%d records were passed ahead, want 3", passed)
	}
	passed = 0
	if found, err := j.backwardOf(pod, 100, stretchRecords-1, third); !found || err != nil || passed != 3 {
		t.Errorf("%d records were passed back, want 3 (%v, %v)", passed, found, err)
	}
}
