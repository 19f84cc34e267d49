package timeline_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/timeline"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
	"github.com/journalet/journalet/test/scenario"
)

var update = flag.Bool("timeline.update", false, "write testdata again")

const histories = "../../../test/simulation/testdata/histories"

// recorded returns a recorded run of the simulation.
func recorded(t testing.TB, seed int) *history.Memory {
	t.Helper()
	return &history.Memory{Name: "n1", Records: recording.Records(t, path(seed))}
}

func path(seed int) string { return filepath.Join(histories, fmt.Sprintf("seed-%d.records", seed)) }

// played returns the journal of a scenario.
func played(t *testing.T, name string) *history.Memory {
	t.Helper()
	found, err := filepath.Glob("../../../test/*/testdata/" + name + ".txt")
	must.OK(t, err)
	if len(found) != 1 {
		t.Fatalf("%d scenarios have the name %s", len(found), name)
	}
	s := scenario.New()
	datadriven.RunTest(t, found[0], func(_ *testing.T, d *datadriven.TestData) string {
		return s.Run(d)
	})
	m, err := s.Journal()
	must.OK(t, err)
	return m
}

func plain(rows [][]timeline.Part) string {
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for _, p := range row {
			line.WriteString(p.Text)
		}
		fmt.Fprintln(&b, strings.TrimRight(line.String(), " "))
	}
	return b.String()
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		must.OK(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	must.OK(t, err)
	if got != string(want) {
		t.Errorf("%s is drawn as\n%s\nwant\n%s", name, got, want)
	}
}

// TestPicturesOfScenarios draws what operators meet, as a person has read it: go test -timeline.update.
func TestPicturesOfScenarios(t *testing.T) {
	for name, pods := range map[string][]string{
		"crash_loop": {"web"}, "flapping_probe": nil, "preempted": nil, "quarantined": nil, "rejected": nil,
		"slow_start": nil, "stuck_terminating": nil, "wrong_image": nil, "agent_restart": nil,
	} {
		t.Run(name, func(t *testing.T) {
			picture, err := timeline.Read(t.Context(), played(t, name), timeline.Options{Pods: pods})
			must.OK(t, err)
			golden(t, name, plain(picture.Text(timeline.TextOptions{Width: 100})))
		})
	}
}

// TestPicturesOfARecordedRun draws a node, and one of its pods, from a run under faults.
func TestPicturesOfARecordedRun(t *testing.T) {
	m := recorded(t, 160)
	for name, pods := range map[string][]string{"node-160": nil, "pod-160": {"h1"}} {
		picture, err := timeline.Read(t.Context(), m, timeline.Options{Pods: pods})
		must.OK(t, err)
		golden(t, name, plain(picture.Text(timeline.TextOptions{Width: 100})))
		golden(t, name+"-ascii", plain(picture.Text(timeline.TextOptions{Width: 80, ASCII: true})))
	}
}

// TestEverySpanFollowsTheJournal holds the pictures of all recorded runs to what each promises: lanes in order, spans
// within the axis, states of one lane that do not overlap, causes before their effects.
func TestEverySpanFollowsTheJournal(t *testing.T) {
	for _, seed := range []int{59, 112, 160, 203, 217, 237} {
		m := recorded(t, seed)
		picture, err := timeline.Read(t.Context(), m, timeline.Options{})
		must.OK(t, err)
		check(t, fmt.Sprint("seed ", seed), picture)
		events := 0
		for _, rec := range m.Records {
			events += len(messages.Events(rec))
		}
		if len(picture.Events) != events || picture.Merged != 0 {
			t.Errorf("seed %d: %d events of %d are shown, %d merged", seed, len(picture.Events), events, picture.Merged)
		}
	}
}

func check(t *testing.T, name string, picture *timeline.Timeline) {
	t.Helper()
	for i, ev := range picture.Events {
		if i > 0 && ev.Seq < picture.Events[i-1].Seq {
			t.Fatalf("%s: event %d is not in order", name, i)
		}
		if ev.Because >= 0 && picture.Events[ev.Because].Seq >= ev.Seq {
			t.Errorf("%s: #%d is led to by #%d", name, ev.Seq, picture.Events[ev.Because].Seq)
		}
		if ev.Cause > 0 && ev.Because >= 0 && picture.Events[ev.Because].Seq != ev.Cause {
			t.Errorf("%s: #%d has the cause #%d and leads back to #%d", name, ev.Seq, ev.Cause, picture.Events[ev.Because].Seq)
		}
		if ev.Text == "" || ev.Group >= len(picture.Groups) {
			t.Errorf("%s: %+v", name, ev)
		}
	}
	for _, g := range picture.Groups {
		for _, l := range g.Lanes {
			end := 0.0
			for _, s := range l.Spans {
				overlaps := l.Kind == "calls" || l.Kind == "start" || l.Kind == "pull"
				if s.Begin < 0 || s.End < s.Begin || s.End > picture.Length+0.001 || !overlaps && s.Begin < end {
					t.Errorf("%s: %s/%s: %+v after %v, the axis has %v", name, g.Name, l.Name, s, end, picture.Length)
				}
				if s.Label == "" || s.BeginSeq == 0 || !s.Open && s.EndSeq == 0 || s.Event >= len(picture.Events) {
					t.Errorf("%s: %s/%s: %+v", name, g.Name, l.Name, s)
				}
				end = s.End
			}
		}
	}
}

// TestEveryDecisionHasAnEventThatLedToIt counts the decisions whose cause is in the picture: all of them, in a whole
// journal.
func TestEveryDecisionHasAnEventThatLedToIt(t *testing.T) {
	for _, seed := range []int{59, 160, 203, 217, 237} {
		picture, err := timeline.Read(t.Context(), recorded(t, seed), timeline.Options{})
		must.OK(t, err)
		for _, ev := range picture.Events {
			if ev.Cause > 0 && ev.Because < 0 {
				t.Errorf("seed %d: nothing leads to #%d %s", seed, ev.Seq, ev.Text)
			}
		}
	}
}

func TestPictureOfOnePodHoldsTheCausesOfItsEvents(t *testing.T) {
	picture, err := timeline.Read(t.Context(), recorded(t, 160), timeline.Options{Pods: []string{"uid-1"}, From: 120})
	must.OK(t, err)
	check(t, "uid-1", picture)
	outside := 0
	for _, ev := range picture.Events {
		if ev.Cause > 0 && ev.Because < 0 {
			t.Errorf("nothing leads to #%d %s", ev.Seq, ev.Text)
		}
		if ev.Group < 0 {
			outside++
		}
	}
	if outside == 0 || len(picture.Groups) != 2 {
		t.Errorf("%d causes from outside, %d groups", outside, len(picture.Groups))
	}
}

func TestClockThatIsSetBackKeepsTheOrderOfTheJournal(t *testing.T) {
	whole, err := timeline.Read(t.Context(), recorded(t, 160), timeline.Options{})
	must.OK(t, err)
	const most = 2 * 60_000 // how much longer a picture may be for a step of the clock, in ms
	m := recorded(t, 160)
	for _, rec := range m.Records[150:] {
		rec.Time = timestamppb.New(rec.GetTime().AsTime().Add(-time.Hour))
	}
	picture, err := timeline.Read(t.Context(), m, timeline.Options{})
	must.OK(t, err)
	check(t, "set back", picture)
	if n := len(picture.ClockSteps); n != 1 || picture.Length > whole.Length+most {
		t.Fatalf("%d steps, a length of %v ms", n, picture.Length)
	}
	text := plain(picture.Text(timeline.TextOptions{Width: 100}))
	s := picture.ClockSteps[0]
	if s.Seq != 151 || s.Shift > -59*time.Minute || !strings.Contains(text, "the clock was set") {
		t.Errorf("the step is %+v, drawn as\n%s", s, text)
	}
	m = recorded(t, 160)
	for _, rec := range m.Records[:3] { // before the machine knows the time
		rec.Time = timestamppb.New(time.Unix(int64(rec.GetSeq()), 0))
	}
	picture, err = timeline.Read(t.Context(), m, timeline.Options{})
	must.OK(t, err)
	check(t, "set forward", picture)
	if len(picture.ClockSteps) != 1 || picture.Length > whole.Length+most {
		t.Errorf("%d steps, a length of %v ms", len(picture.ClockSteps), picture.Length)
	}
}

func TestMissingRecordsAreShown(t *testing.T) {
	m := recorded(t, 160)
	m.Records = slices.Concat(m.Records[:60], m.Records[90:])
	picture, err := timeline.Read(t.Context(), m, timeline.Options{})
	must.OK(t, err)
	check(t, "missing", picture)
	for _, l := range picture.Groups[0].Lanes {
		if l.Kind == "journal" && len(l.Spans) == 1 && l.Spans[0].Text == "records #61 to #90 are not in this journal" {
			return
		}
	}
	t.Errorf("the gap is not shown: %v", picture.Notes)
}

// TestOfMoreEventsThanTheLimitTheShortOnesAreMerged draws a run in ever fewer events. As a last resort the oldest are
// dropped, and are then in no span.
func TestOfMoreEventsThanTheLimitTheShortOnesAreMerged(t *testing.T) {
	m := recorded(t, 112)
	whole, err := timeline.Read(t.Context(), m, timeline.Options{})
	must.OK(t, err)
	for _, limit := range []int{1000, 300, 50, 1} {
		picture, err := timeline.Read(t.Context(), m, timeline.Options{Limit: limit})
		must.OK(t, err)
		shown, counted := 0, 0
		for _, ev := range picture.Events {
			if ev.Group >= 0 {
				shown++
			}
		}
		for _, g := range picture.Groups {
			for _, l := range g.Lanes {
				for _, s := range l.Spans {
					if l.Kind == "events" {
						counted += s.Count
					}
				}
			}
		}
		if shown > limit || shown+picture.Merged != len(whole.Events) || len(picture.Notes) == 0 {
			t.Errorf("limit %d: %d shown, %d merged, of %d: %v", limit, shown, picture.Merged, len(whole.Events), picture.Notes)
		}
		if limit >= 300 && counted != picture.Merged {
			t.Errorf("limit %d: spans count %d events of %d", limit, counted, picture.Merged)
		}
		if picture.Length != whole.Length || limit >= 300 && len(picture.Groups) != len(whole.Groups) {
			t.Errorf("limit %d: another length, or other groups", limit)
		}
	}
}

// TestNameThatRetentionHasCutIsReadFromASnapshot draws a pod by a name that no record holds.
func TestNameThatRetentionHasCutIsReadFromASnapshot(t *testing.T) {
	m := recorded(t, 160)
	m.Records = m.Records[180:]
	state, err := proto.Marshal(&journaletv1.PodState{Pod: &journaletv1.PodRef{Namespace: "default", Name: "kept-n1"}})
	must.OK(t, err)
	m.Sets = map[uint64][]*journaletv1.Snapshot{180: {{Actor: messages.Pod("uid-3").Proto(), State: state}}}
	picture, err := timeline.Read(t.Context(), m, timeline.Options{Pods: []string{"kept"}})
	must.OK(t, err)
	if g := picture.Groups[1]; g.UID != "uid-3" || len(g.Lanes) == 0 {
		t.Errorf("it draws %s, UID %s, %d lanes", g.Name, g.UID, len(g.Lanes))
	}
}

// part is a journal that holds only one pod.
type part struct {
	*history.Memory
	pod messages.Ref
}

func (p part) Complete(ref messages.Ref) bool { return ref == p.pod }

func TestPartOfAJournalShowsOnlyThePodsThatItHolds(t *testing.T) {
	m := recorded(t, 160)
	m.Records = slices.DeleteFunc(m.Records, func(rec *journaletv1.Record) bool {
		ref := messages.RefOf(rec.GetActor())
		return ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD && ref.ID != "uid-3"
	})
	picture, err := timeline.Read(t.Context(), part{m, messages.Pod("uid-3")}, timeline.Options{})
	must.OK(t, err)
	check(t, "part", picture)
	if len(picture.Groups) != 2 || picture.Groups[1].UID != "uid-3" || len(picture.Notes) != 1 {
		t.Errorf("%d groups, notes %q", len(picture.Groups), picture.Notes)
	}
	for _, l := range picture.Groups[0].Lanes {
		if l.Kind == "journal" {
			t.Error("what is left out on purpose is shown as missing")
		}
	}
}

func TestPodThatNoRecordNamesIsAnError(t *testing.T) {
	_, err := timeline.Read(t.Context(), recorded(t, 160), timeline.Options{Pods: []string{"nope"}})
	if !errors.Is(err, history.ErrNoRecord) || !strings.Contains(err.Error(), "nope") {
		t.Errorf("it returns %v", err)
	}
	if _, err := timeline.Read(t.Context(), &history.Memory{}, timeline.Options{}); !errors.Is(err, history.ErrNoRecord) {
		t.Errorf("an empty journal: %v", err)
	}
}

// TestDocumentShowsWhatIsDrawn holds the picture in docs/TIMELINE.md to the true one.
func TestDocumentShowsWhatIsDrawn(t *testing.T) {
	const document, begin, end = "../../../docs/TIMELINE.md", "-timeline.update -->\n```\n", "```\n"
	picture, err := timeline.Read(t.Context(), played(t, "crash_loop"), timeline.Options{Pods: []string{"web"}})
	must.OK(t, err)
	want := plain(picture.Text(timeline.TextOptions{Width: 100}))
	b, err := os.ReadFile(document)
	must.OK(t, err)
	before, rest, ok1 := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("the document has no picture")
	}
	if *update {
		must.OK(t, os.WriteFile(document, []byte(before+begin+want+end+after), 0o600))
		return
	}
	if got != want {
		t.Errorf("the document shows\n%s\nwant\n%s", got, want)
	}
}

// TestPassedRecordsChangeNothing draws each pod of recorded runs from all records, and from the decoded records only.
func TestPassedRecordsChangeNothing(t *testing.T) {
	for _, seed := range []int{59, 112, 160, 203} {
		m := recorded(t, seed)
		node, err := timeline.Read(t.Context(), m, timeline.Options{})
		must.OK(t, err)
		for _, g := range node.Groups[1:] {
			picture, err := timeline.Read(t.Context(), m, timeline.Options{Pods: []string{g.UID}})
			must.OK(t, err)
			got := picture.Groups[1]
			if len(got.Lanes) != len(g.Lanes) || picture.Length != node.Length || picture.LastSeq != node.LastSeq {
				t.Fatalf("seed %d, %s: %d lanes, want %d", seed, g.Name, len(got.Lanes), len(g.Lanes))
			}
			for i, l := range g.Lanes {
				alone, whole := spans(got.Lanes[i].Spans), spans(l.Spans)
				if alone != whole || len(got.Lanes[i].Marks) != len(l.Marks) {
					t.Errorf("seed %d, %s, lane %s: %d marks and spans\n%s\nwant %d and\n%s", seed, g.Name, l.Name,
						len(got.Lanes[i].Marks), alone, len(l.Marks), whole)
				}
			}
		}
	}
}

func spans(all []*timeline.Span) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s %s %v-%v #%d-#%d\n", s.Class, s.Label, s.Begin, s.End, s.BeginSeq, s.EndSeq)
	}
	return b.String()
}
