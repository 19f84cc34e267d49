package replay

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/simulation"
)

// simulated returns the journal of a simulated node under faults. Tests change copies of it.
var simulated = sync.OnceValue(func() *history.Memory {
	return simulation.Run(simulation.PlanOf(160), simulation.Options{}).History()
})

// busy returns the journal of a simulated node with sets of snapshots.
var busy = sync.OnceValue(func() *history.Memory { return simulation.Busy(4, 30, 15*time.Minute, 500).History() })

// changed returns the journal with one record changed: the first record that change reports true for.
func changed(t *testing.T, change func(*journaletv1.Record) bool) (*history.Memory, *journaletv1.Record) {
	t.Helper()
	src := *simulated()
	src.Records = slices.Clone(src.Records)
	for i, rec := range src.Records {
		if rec = proto.CloneOf(rec); change(rec) {
			src.Records[i] = rec
			return &src, rec
		}
	}
	t.Fatal("no record was changed")
	return nil, nil
}

func checked(t *testing.T, src history.Reader) *Report {
	t.Helper()
	r, err := Check(t.Context(), src, Options{})
	must.OK(t, err)
	return r
}

func TestCheckFindsNoDivergenceInAnUnchangedJournal(t *testing.T) {
	src := simulated()
	r := checked(t, src)
	if r.Diverged > 0 {
		t.Errorf("it diverges: %s", r.Divergences[0].String())
	}
	var steps, decisions uint64
	for _, rec := range src.Records {
		if rec.GetStep() != nil && !rec.GetStep().GetMore() {
			steps++
		}
		decisions += uint64(len(rec.GetStep().GetDecisions()))
	}
	if not := r.NotCompared; r.Steps != steps || r.Decisions != decisions || not.Base+not.Quarantined+not.Missing > 0 {
		t.Errorf("%d steps and %d decisions are compared, want %d and %d: %+v", r.Steps, r.Decisions, steps, decisions, not)
	}
	if r.Records != uint64(len(src.Records)) || r.Quiet == 0 {
		t.Errorf("%d records, %d without a decision", r.Records, r.Quiet)
	}
}

func TestCheckNamesTheFirstDivergence(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*journaletv1.Record) bool
		want   []string // parts of the text
	}{
		"another value": {func(rec *journaletv1.Record) bool {
			for _, e := range rec.GetStep().GetDecisions() {
				if start := e.GetCallRequested().GetStartContainer(); start != nil {
					start.Attempt += 7
					return true
				}
			}
			return false
		}, []string{"call_requested.start_container.attempt: "}},
		"a decision that was not taken": {func(rec *journaletv1.Record) bool {
			e := messages.NewEvent(&journaletv1.PodTerminated{})
			if rec.GetActor().GetKind() == journaletv1.ActorKind_ACTOR_KIND_POD && rec.GetStep() != nil {
				rec.GetStep().Decisions = append(rec.GetStep().GetDecisions(), e)
				return true
			}
			return false
		}, []string{"pod_terminated recorded, none now"}},
		"a decision that is not recorded": {func(rec *journaletv1.Record) bool {
			if all := rec.GetStep().GetDecisions(); len(all) > 1 && all[len(all)-1].GetPodStatusChanged() != nil {
				rec.GetStep().Decisions = all[:len(all)-1]
				return true
			}
			return false
		}, []string{"none recorded, pod_status_changed now"}},
		"a broken order": {func(rec *journaletv1.Record) bool {
			if rec.GetStep().GetAfter() > 20 {
				rec.GetStep().After--
				return true
			}
			return false
		}, []string{"cannot be folded", "but the fold is at"}},
	} {
		t.Run(name, func(t *testing.T) {
			src, rec := changed(t, c.change)
			r := checked(t, src)
			if r.Diverged == 0 {
				t.Fatal("no divergence is found")
			}
			d := r.Divergences[0]
			actor := messages.RefOf(rec.GetActor()).String()
			if d.Seq != rec.GetSeq() || d.Actor != actor || d.Cause != rec.GetStep().GetCause() {
				t.Errorf("it names record %d of %s, want %d of %s", d.Seq, d.Actor, rec.GetSeq(), actor)
			}
			for _, want := range c.want {
				if !strings.Contains(d.String(), want) {
					t.Errorf("no %q in: %s", want, d.String())
				}
			}
		})
	}
}

// A difference is not followed by others: the actor folds what is recorded.
func TestCheckStaysOnTheRecordedPath(t *testing.T) {
	src, _ := changed(t, func(rec *journaletv1.Record) bool {
		for _, e := range rec.GetStep().GetDecisions() {
			if c := e.GetPodStatusChanged(); c != nil {
				c.Restarts += 3
				return true
			}
		}
		return false
	})
	r := checked(t, src)
	if r.Diverged != 1 || r.NotCompared.Quarantined != 0 {
		t.Errorf("%d actors diverge, %+v: %+v", r.Diverged, r.NotCompared, r.Divergences)
	}
	if f := r.Divergences[0].Fields; len(f) != 1 || f[0].Path != "pod_status_changed.restarts" {
		t.Errorf("fields: %v", f)
	}
}

func TestCheckBeginsWithTheFirstSnapshotsOfACutJournal(t *testing.T) {
	whole := busy()
	barriers, err := whole.Snapshots(t.Context())
	must.OK(t, err)
	cut := *whole
	cut.Records = whole.Records[barriers[0]-100:]
	r := checked(t, &cut)
	if r.Base != barriers[0] || r.Diverged > 0 || r.Steps == 0 {
		t.Errorf("it begins at %d, want %d; %d steps, %d diverge", r.Base, barriers[0], r.Steps, r.Diverged)
	}
	cut.Sets = nil
	if _, err := Check(t.Context(), &cut, Options{}); err == nil || !strings.Contains(err.Error(), "no set of snapshots") {
		t.Errorf("without snapshots: %v", err)
	}
}

func TestCheckOfAPartDoesNotReportWhatItLacks(t *testing.T) {
	whole := simulated()
	var uid string
	part := *whole
	part.Records = nil
	for _, rec := range whole.Records {
		author := messages.RefOf(rec.GetActor())
		concerns := author == messages.Agent
		for _, e := range messages.Events(rec) {
			if uid == "" {
				uid = e.GetPodUpdated().GetPod().GetUid()
			}
			concerns = concerns || uid != "" && history.Concerns(messages.Pod(uid), author, e)
		}
		if concerns {
			part.Records = append(part.Records, rec)
		}
	}
	r := checked(t, partial{&part, messages.Pod(uid)})
	if r.Diverged > 0 || r.Steps == 0 || r.NotCompared.Missing == 0 {
		t.Errorf("%d diverge of %d steps, %+v: %v", r.Diverged, r.Steps, r.NotCompared, r.Divergences)
	}
}

type partial struct {
	*history.Memory
	only messages.Ref
}

func (p partial) Complete(ref messages.Ref) bool { return ref == p.only }

func TestCheckWithoutManifestsComparesTheRest(t *testing.T) {
	src := *simulated()
	src.Manifests = nil
	r := checked(t, &src)
	if r.Diverged > 0 || r.NotCompared.MissingActors == 0 || r.Steps == 0 {
		t.Errorf("%d diverge of %d steps, %+v: %v", r.Diverged, r.Steps, r.NotCompared, r.Divergences)
	}
}

// TestCheckCountsLostRecords loses the cause of a step that is still there, with the records after it.
func TestCheckCountsLostRecords(t *testing.T) {
	const lost = 5
	src := *simulated()
	i := slices.IndexFunc(src.Records, func(rec *journaletv1.Record) bool {
		cause := rec.GetStep().GetCause()
		return cause > 50 && rec.GetSeq() >= cause+lost
	})
	if i < 0 {
		t.Fatal("no step is stored so long after its cause")
	}
	at := int(src.Records[i].GetStep().GetCause()) - 1
	src.Records = slices.Delete(slices.Clone(src.Records), at, at+lost)
	r := checked(t, &src)
	if r.Absent != lost || r.NotCompared.MissingActors == 0 || r.NotCompared.Missing == 0 {
		t.Errorf("%d are absent, want %d; %+v", r.Absent, lost, r.NotCompared)
	}
	for _, d := range r.Divergences {
		if strings.Contains(d.Error, "but the fold is at") {
			t.Errorf("a lost record counts as a divergence: %s", d.String())
		}
	}
}

func TestSnapshotsWithoutManifestsLeaveTheirPodsOut(t *testing.T) {
	whole := busy()
	barriers, err := whole.Snapshots(t.Context())
	must.OK(t, err)
	cut := *whole
	cut.Records, cut.Manifests = whole.Records[barriers[0]-100:], nil
	r := checked(t, &cut)
	if r.Diverged > 0 || r.NotCompared.MissingActors == 0 || r.Steps == 0 {
		t.Errorf("%d diverge of %d steps, %+v: %v", r.Diverged, r.Steps, r.NotCompared, r.Divergences)
	}
}

// The state at any record is what a fold of the whole journal up to it shows.
func TestStateAtIsThatOfTheFold(t *testing.T) {
	src := simulated()
	lib := newLibrary(t.Context(), src)
	f := fold.New(fold.AllDeciders, lib.get)
	f.CreateSingletons()
	for i, rec := range src.Records {
		f.Record(rec)
		if i%97 != 0 {
			continue
		}
		for ref, c := range f.Cells {
			st, err := StateAt(t.Context(), src, ref, rec.GetSeq())
			must.OK(t, err)
			// Later records without a decision may be contained, too.
			if len(f.Pending[ref]) == 0 && (st.Handled != c.Handled || !proto.Equal(st.Message, c.Decider.State())) {
				t.Fatalf("%s at record %d differs: %v", ref, rec.GetSeq(), Differences(c.Decider.State(), st.Message))
			}
			if st.Handled < c.Handled || st.Handled > rec.GetSeq() {
				t.Fatalf("%s at record %d has handled %d, want %d or later", ref, rec.GetSeq(), st.Handled, c.Handled)
			}
		}
	}
}

func TestStateAtReportsWhatIsNotThere(t *testing.T) {
	src := *simulated()
	for _, c := range []struct {
		ref  messages.Ref
		seq  uint64
		want error
	}{
		{messages.Pod("nobody"), 10, ErrNoActor}, {messages.Node, 1 << 40, history.ErrNoRecord},
	} {
		if _, err := StateAt(t.Context(), &src, c.ref, c.seq); !errors.Is(err, c.want) {
			t.Errorf("%s at %d: %v, want %v", c.ref, c.seq, err, c.want)
		}
	}
	src.Records = src.Records[100:]
	if _, err := StateAt(t.Context(), &src, messages.Node, 50); !errors.Is(err, history.ErrGone) {
		t.Errorf("before the first record: %v", err)
	}
	src.Records = nil
	if _, err := StateAt(t.Context(), &src, messages.Node, 0); !errors.Is(err, history.ErrNoRecord) {
		t.Errorf("of an empty journal: %v", err)
	}
}
