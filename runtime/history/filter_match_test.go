package history

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

func fact(seq uint64, about messages.Ref, e proto.Message) *journaletv1.Record {
	return &journaletv1.Record{Seq: seq, Epoch: 1, Actor: about.Proto(),
		Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(e)}}
}

func step(seq uint64, author messages.Ref, cause uint64, decisions ...proto.Message) *journaletv1.Record {
	s := &journaletv1.Step{Cause: cause}
	for _, d := range decisions {
		s.Decisions = append(s.Decisions, messages.NewEvent(d))
	}
	return &journaletv1.Record{Seq: seq, Epoch: 1, Actor: author.Proto(), Body: &journaletv1.Record_Step{Step: s}}
}

func podUpdated(uid, namespace, name string) proto.Message {
	return added(uid, namespace, name).GetPodUpdated()
}

// timer is a decision or a fact about a timer.
func timer(name string, generation uint64) *journaletv1.TimerSet {
	return &journaletv1.TimerSet{Name: name, Generation: generation, Duration: durationpb.New(1)}
}

// twoPods returns the records of two pods: u1 is default/web-n, u2 is shop/api-n, u3 another web-n after u1.
func twoPods() []*journaletv1.Record {
	u1, u2, file := messages.Pod("u1"), messages.Pod("u2"), messages.Source(messages.FileSource)
	start := messages.NewCall(&journaletv1.StartContainer{Container: "main"})
	return []*journaletv1.Record{
		fact(1, messages.Agent, &journaletv1.AgentStarted{}),
		step(2, file, 1, podUpdated("u1", "default", "web-n"), podUpdated("u2", "shop", "api-n")),
		step(3, u1, 2, start, timer("back-off main", 7), timer("grace", 8)),
		step(4, u2, 2, start),
		step(5, messages.Runtime, 3, &journaletv1.CallDispatched{IntentId: messages.DecisionID(1, 2, u1, 0)}),
		fact(6, u1, &journaletv1.CallFinished{IntentId: messages.DecisionID(1, 2, u1, 0), Requester: "pod/u1"}),
		step(7, u1, 6, &journaletv1.PodStatusChanged{}, &journaletv1.TimerCleared{Name: "grace"}),
		fact(8, u1, &journaletv1.TimerFired{Name: "grace", Generation: 8}), // too late
		fact(9, u1, &journaletv1.TimerFired{Name: "back-off main", Generation: 7}),
		step(10, u1, 9, start),
		fact(11, u2, &journaletv1.PodObserved{Uid: "u2"}),
		step(12, file, 11, podUpdated("u3", "default", "web-n")),
		step(13, messages.Pod("u3"), 12, start),
	}
}

// matched returns seq.index of the events that f selects.
func matched(t *testing.T, f *Filter, recs []*journaletv1.Record) []string {
	t.Helper()
	var out []string
	for _, rec := range recs {
		for _, e := range messages.FlattenLazily("n", rec) {
			in, err := f.Match(&e)
			must.OK(t, err)
			if in {
				out = append(out, fmt.Sprintf("%d.%d", e.Seq, e.Index))
			}
		}
	}
	return out
}

func TestFilterSelectsByItsFieldsAndAllOfThemTogether(t *testing.T) {
	for name, c := range map[string]struct {
		filter Filter
		want   string
	}{
		"pod by name": {Filter{Pods: []string{"api"}}, "2.1 4.0 11.0"},
		"pods, a name with two UIDs": {Filter{Pods: []string{"default/web", "u2"}, Quiet: true},
			"2.0 2.1 3.0 4.0 5.0 6.0 7.0 10.0 11.0 12.0 13.0"},
		"namespace":                {Filter{Namespace: "shop"}, "2.1 4.0 11.0"},
		"pod of another namespace": {Filter{Namespace: "shop", Pods: []string{"web"}}, ""},
		"events":                   {Filter{Events: []string{"call_finished", "call_dispatched"}}, "5.0 6.0"},
		"kind":                     {Filter{Kind: "source"}, "2.0 2.1 12.0"},
		"author":                   {Filter{Author: "pod/u2"}, "4.0 11.0"},
		"quiet":                    {Filter{Quiet: true, Pods: []string{"u1"}}, "2.0 3.0 5.0 6.0 7.0 10.0"},
		"quiet but for one":        {Filter{Quiet: true, Events: []string{"timer_fired"}}, "8.0 9.0"},
		"cause: outcome and timer": {Filter{Cause: 3}, "3.0 3.1 3.2 5.0 6.0 7.0 7.1 9.0 10.0"},
		"cause: a fact":            {Filter{Cause: 11}, "11.0 12.0 13.0"},
		"cause: the outcome":       {Filter{Cause: 6}, "6.0 7.0 7.1"},
		"cause and event":          {Filter{Cause: 1, Events: []string{"call_requested"}}, "3.0 4.0 10.0"},
		"cause and pod":            {Filter{Cause: 2, Pods: []string{"api"}}, "2.1 4.0"},
	} {
		c.filter.Node = "n"
		if got := strings.Join(matched(t, &c.filter, twoPods()), " "); got != c.want {
			t.Errorf("%s: selects %s, want %s", name, got, c.want)
		}
	}
}

func TestFilterRejectsWhatCanMatchNothing(t *testing.T) {
	for _, f := range []Filter{{Kind: "pots"}, {Author: "web"}, {Events: []string{"pod_updated", "pod_exploded"}},
		{UIDs: make([]string, maxUIDs+1)}, {Timers: make([]string, maxTimers+1)},
		{Fired: make([]uint64, maxFired+1)}} {
		if f.Check() == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

func TestFilterKeepsTheLatestOfManyPods(t *testing.T) {
	f := Filter{Namespace: "default"}
	for i := range maxUIDs + 1 {
		f.AddPod(fmt.Sprint("u", i), "default", "web")
	}
	if len(f.UIDs) != maxUIDs || f.UIDs[maxUIDs-1] != fmt.Sprint("u", maxUIDs) || f.Check() != nil {
		t.Fatalf("%d UIDs, %v", len(f.UIDs), f.Check())
	}
}

// ledBy computes what a record led to in another way: over the whole history, without pages.
func ledBy(recs []*journaletv1.Record, cause uint64) (out []string) {
	led, steps, timers := map[uint64]bool{}, map[string]bool{}, map[string]string{}
	for _, rec := range recs {
		for _, e := range messages.FlattenLazily("n", rec) {
			event, in := e.Message(), e.Seq == cause || led[e.Cause]
			key := func(name string) string { return e.Author + "|" + name }
			if c := event.GetCallFinished(); c != nil {
				in = in || steps[stepOf(c.GetIntentId())]
			}
			if c := event.GetTimerFired(); c != nil {
				in = in || timers[key(c.GetName())] == fmt.Sprint(c.GetGeneration())
				delete(timers, key(c.GetName()))
			}
			if c := event.GetTimerCleared(); c != nil {
				delete(timers, key(c.GetName()))
			}
			if c := event.GetTimerSet(); c != nil {
				delete(timers, key(c.GetName()))
				if in {
					timers[key(c.GetName())] = fmt.Sprint(c.GetGeneration())
				}
			}
			if !in {
				continue
			}
			led[e.Seq] = true
			if e.ID != "" {
				steps[stepOf(e.ID)] = true
			}
			out = append(out, fmt.Sprintf("%d.%d", e.Seq, e.Index))
		}
	}
	return out
}

func TestEffectsOfARecordAreTheSameInOnePageAndInMany(t *testing.T) {
	all, err := filepath.Glob("../../test/simulation/testdata/histories/*.records")
	must.OK(t, err)
	random, most := rand.New(rand.NewPCG(1, 2)), 0
	for _, path := range all {
		recs := recording.Records(t, path)
		get := func(seq uint64) ([]messages.Flat, error) {
			i := slices.IndexFunc(recs, func(r *journaletv1.Record) bool { return r.GetSeq() == seq })
			if i < 0 {
				return nil, ErrNoRecord
			}
			return messages.FlattenLazily("n", recs[i]), nil
		}
		for range 40 {
			cause := recs[random.IntN(len(recs))].GetSeq()
			want := ledBy(recs, cause)
			most = max(most, len(want))
			if got := matched(t, &Filter{Cause: cause}, recs); !slices.Equal(got, want) {
				t.Fatalf("%s: record %d led to %v, want %v", path, cause, got, want)
			}
			var got []string
			f := Filter{Cause: cause}
			for i := int(cause - recs[0].GetSeq()); i < len(recs); {
				n := min(1+random.IntN(30), len(recs)-i)
				// What the next page gets is what a request can carry.
				f = Filter{Cause: cause, Timers: f.Timers, Fired: f.Fired, Record: get}
				got = append(got, matched(t, &f, recs[i:i+n])...)
				i += n
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: in pages record %d led to %v, want %v", path, cause, got, want)
			}
		}
	}
	if len(all) == 0 || most < 40 {
		t.Errorf("%d histories, in which a record led to %d events at most: too few to show anything", len(all), most)
	}
}
