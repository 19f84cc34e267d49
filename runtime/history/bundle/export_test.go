package bundle

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/simulation"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// exported exports a part of a journal and opens it.
func exported(t testing.TB, src history.Reader, o Options) (*Reader, *Result) {
	t.Helper()
	o.Version, o.Now = "v1.2.3", now
	var out bytes.Buffer
	res, err := Export(t.Context(), src, &out, o)
	must.OK(t, err)
	if int(res.Bytes) != out.Len() {
		t.Errorf("%d bytes written, and %d reported", out.Len(), res.Bytes)
	}
	r := open(t, out.Bytes())
	must.OK(t, r.Check(t.Context(), nil))
	return r, res
}

// seeds are runs of the simulation under faults: several sources, crashes, resizes, preemption, orphans.
var seeds = []uint64{112, 160, 203, 217, 255}

// simulated returns the journal of a run; it is not changed.
func simulated(seed uint64) *history.Memory {
	runs.Lock()
	defer runs.Unlock()
	if runs.by[seed] == nil {
		runs.by[seed] = simulation.Run(simulation.PlanOf(seed), simulation.Options{}).History()
	}
	m := *runs.by[seed]
	m.Manifests = maps.Clone(m.Manifests)
	return &m
}

var runs = struct {
	sync.Mutex
	by map[uint64]*history.Memory
}{by: map[uint64]*history.Memory{}}

// sound fails unless replay finds all decisions of a bundle as recorded, and, unless it is of some pods, compares each
// step that its states do not contain. It returns how many decisions were compared.
func sound(t *testing.T, r *Reader) (decisions uint64) {
	t.Helper()
	report, err := replay.Check(t.Context(), r, replay.Options{})
	must.OK(t, err)
	steps := uint64(0)
	must.OK(t, r.Read(t.Context(), 0, 0, func(e history.Entry) error {
		rec, err := e.Record()
		if rec.GetStep() != nil && !rec.GetStep().GetMore() {
			steps++
		}
		return err
	}))
	not, some := report.NotCompared, len(r.Header().GetPods()) > 0
	if !some && (report.Steps+not.Base != steps || not.Quarantined+not.Missing > 0) {
		t.Errorf("records %d to %d: not all of %d steps were compared: %+v", r.Index().GetFirst(), r.Index().GetLast(),
			steps, report)
	}
	if report.Diverged > 0 {
		t.Errorf("records %d to %d: %d divergences, the first one %+v", r.Index().GetFirst(), r.Index().GetLast(),
			len(report.Divergences), report.Divergences[0])
	}
	return report.Decisions
}

func TestWholeJournalsFoldFromTheirBundles(t *testing.T) {
	for _, seed := range seeds {
		m := simulated(seed)
		r, res := exported(t, m, Options{})
		if n := uint64(len(m.Records)); res.Index.GetRecords() != n || res.Header.GetTo() != n || len(res.Notices) > 0 {
			t.Errorf("%d: %d of %d records, %v", seed, res.Index.GetRecords(), n, res.Notices)
		}
		sound(t, r)
	}
}

func TestAPartOfAJournalFoldsFromTheStatesAtItsBeginning(t *testing.T) {
	for _, seed := range seeds {
		m := simulated(seed)
		last, decisions := uint64(len(m.Records)), uint64(0)
		for from := uint64(2); from < last; from += max(1, last/9) {
			r, res := exported(t, m, Options{From: from, To: min(last, from+last/3)})
			if first, _ := r.Bounds(); first > from || len(res.Index.GetSets()) != min(1, int(first)-1) ||
				len(res.Notices) > 0 {
				t.Errorf("%d from %d: it begins at %d, %v", seed, from, first, res.Notices)
			}
			decisions += sound(t, r)
			if t.Failed() {
				t.Fatalf("%d from %d", seed, from)
			}
		}
		if decisions < last {
			t.Errorf("%d: only %d decisions were compared in the parts of %d records", seed, decisions, last)
		}
	}
}

// What follows from a bundle's states is what follows from the whole journal.
func TestStatesInABundleAreThoseOfTheJournal(t *testing.T) {
	m := simulated(112)
	last := uint64(len(m.Records))
	r, _ := exported(t, m, Options{From: 900})
	for _, name := range r.Index().GetActors() {
		ref, err := messages.ParseRef(name)
		must.OK(t, err)
		for _, seq := range []uint64{900, 1200, last} {
			want, err1 := replay.StateAt(t.Context(), m, ref, seq)
			got, err2 := replay.StateAt(t.Context(), r, ref, seq)
			if errors.Is(err1, replay.ErrNoActor) && errors.Is(err2, replay.ErrNoActor) {
				continue
			}
			must.OK(t, err1)
			must.OK(t, err2)
			if !proto.Equal(want.Message, got.Message) {
				t.Errorf("%s at %d:\n%v\nin the bundle:\n%v", ref, seq, want.Message, got.Message)
			}
		}
	}
}

func TestABundleOfSomePodsHoldsWhatTheyNeedAndWhatLedToIt(t *testing.T) {
	decisions := uint64(0)
	for _, seed := range seeds[1:] {
		m := simulated(seed)
		for _, ref := range podsIn(m) {
			r, res := exported(t, m, Options{Pods: []string{ref.GetUid()}})
			if !r.Complete(messages.Pod(ref.GetUid())) || r.Complete(messages.Node) || len(res.Header.GetPods()) != 1 ||
				res.Header.GetPods()[0].GetName() != ref.GetName() {
				t.Errorf("%d: pods %v", seed, res.Header.GetPods())
			}
			decisions += sound(t, r)
			checkCauses(t, m, r)
			if t.Failed() {
				t.Fatalf("%d, pod %s, %d of %d records", seed, ref.GetUid(), res.Index.GetRecords(), len(m.Records))
			}
		}
	}
	if decisions < 1000 {
		t.Errorf("only %d decisions were compared", decisions)
	}
}

// checkCauses fails if a decision's cause is missing, or a record about the pod.
func checkCauses(t *testing.T, m *history.Memory, r *Reader) {
	t.Helper()
	pod := r.Header().GetPods()[0].GetUid()
	held := map[uint64]bool{}
	must.OK(t, r.Read(t.Context(), 0, 0, func(e history.Entry) error {
		held[e.Seq] = true
		rec, err := e.Record()
		if step := rec.GetStep(); step != nil && !held[step.GetCause()] {
			t.Errorf("record %d is there, and its cause %d is not", e.Seq, step.GetCause())
		}
		return err
	}))
	for _, rec := range m.Records {
		author := messages.RefOf(rec.GetActor())
		for _, e := range messages.Events(rec) {
			if slices.Contains(history.PodsOf(author, e), pod) && !held[rec.GetSeq()] {
				t.Errorf("record %d is about the pod, and it is missing", rec.GetSeq())
			}
		}
	}
	if len(held) < len(m.Records) {
		for seq := uint64(1); seq < r.Index().GetLast(); seq++ {
			if _, err := r.Get(t.Context(), seq); !held[seq] && !errors.Is(err, history.ErrGone) {
				t.Fatalf("record %d: %v", seq, err)
			}
		}
	}
}

func podsIn(m *history.Memory) []*journaletv1.PodRef {
	seen := map[string]bool{}
	var out []*journaletv1.PodRef
	for _, rec := range m.Records {
		for _, e := range messages.Events(rec) {
			for _, p := range history.NamedPods(e) {
				if p.GetUid() != "" && !seen[p.GetUid()] {
					seen[p.GetUid()] = true
					out = append(out, p)
				}
			}
		}
	}
	return out
}

func TestPodsOfAPartAreFoundByTheirNamesInItsStates(t *testing.T) {
	m := simulated(112)
	last := uint64(len(m.Records))
	pods := podsIn(m)
	for _, want := range []string{pods[0].GetName(), "default/" + pods[0].GetName()} {
		r, res := exported(t, m, Options{From: 300, To: last, Pods: []string{want}})
		if len(res.Header.GetPods()) == 0 {
			t.Errorf("%s: no pod", want)
		}
		for _, p := range res.Header.GetPods() {
			if p.GetName() != pods[0].GetName() {
				t.Errorf("%s: pod %v", want, p)
			}
		}
		sound(t, r)
	}
	if _, err := Export(t.Context(), m, &bytes.Buffer{}, Options{Pods: []string{"none"}}); !errors.Is(err, ErrNothing) ||
		!strings.Contains(err.Error(), "pod none") {
		t.Errorf("a pod that is not there: %v", err)
	}
}

func TestNothingToExportIsAnError(t *testing.T) {
	m := simulated(112)
	for name, o := range map[string]Options{
		"nothing between": {From: 10, To: 9}, "behind the end": {From: uint64(len(m.Records)) + 1},
	} {
		if _, err := Export(t.Context(), m, &bytes.Buffer{}, o); !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Export(t.Context(), &history.Memory{}, &bytes.Buffer{}, Options{}); !errors.Is(err, ErrNothing) {
		t.Errorf("an empty journal: %v", err)
	}
}

func TestTimesAreFoundInABundleWithGaps(t *testing.T) {
	m := simulated(112)
	r, _ := exported(t, m, Options{Pods: []string{podsIn(m)[0].GetUid()}})
	var held []*journaletv1.Record
	must.OK(t, r.Read(t.Context(), 0, 0, func(e history.Entry) error {
		rec, err := e.Record()
		held = append(held, rec)
		return err
	}))
	begin, end := held[0].GetTime().AsTime(), held[len(held)-1].GetTime().AsTime()
	if first, last, err := history.Ends(t.Context(), r); err != nil || !first.Equal(begin) || !last.Equal(end) {
		t.Errorf("from %s to %s, want %s to %s: %v", first, last, begin, end, err)
	}
	for _, i := range []int{0, 1, len(held) / 2, len(held) - 1} {
		at := held[i].GetTime().AsTime()
		seq, err := history.SeqAt(t.Context(), r, at)
		must.OK(t, err)
		n, _ := slices.BinarySearchFunc(held, seq, func(rec *journaletv1.Record, seq uint64) int {
			return cmp.Compare(rec.GetSeq(), seq)
		})
		if !held[n].GetTime().AsTime().Equal(at) || n > 0 && !held[n-1].GetTime().AsTime().Before(at) {
			t.Errorf("the first record at %s is %d", at, seq)
		}
	}
	if seq, err := history.SeqAt(t.Context(), r, end.Add(time.Second)); err != nil || seq <= held[len(held)-1].GetSeq() {
		t.Errorf("after the end: %d, %v", seq, err)
	}
}

func TestABundleOfABundleHoldsTheSame(t *testing.T) {
	m := simulated(112)
	first, _ := exported(t, m, Options{From: 300})
	again, res := exported(t, first, Options{})
	if again.Index().GetRecords() != first.Index().GetRecords() || len(res.Notices) > 0 ||
		!proto.Equal(again.Index().GetSets()[0], first.Index().GetSets()[0]) ||
		again.Index().GetManifests() != first.Index().GetManifests() ||
		again.Index().GetAgentVersion() != first.Index().GetAgentVersion() {
		t.Errorf("%v\nwant\n%v", again.Index(), first.Index())
	}
	sound(t, again)
	pod := podsIn(m)[0].GetUid()
	one, _ := exported(t, m, Options{Pods: []string{pod}})
	part, res := exported(t, one, Options{From: one.Index().GetFirst() + 20})
	if len(res.Header.GetPods()) != 1 || len(res.Notices) != 1 || !part.Complete(messages.Pod(pod)) {
		t.Errorf("%v, %v", res.Header, res.Notices)
	}
}

func TestARetainedJournalFoldsFromItsFirstSet(t *testing.T) {
	m := simulated(112)
	st, err := statesBefore(t.Context(), m, 1000, func(uint64) {})
	must.OK(t, err)
	cut := &history.Memory{
		Name: m.Name, Manifests: m.Manifests, Records: m.Records[st.begin-1:],
		Sets: map[uint64][]*journaletv1.Snapshot{st.begin - 1: st.set},
	}
	r, res := exported(t, cut, Options{})
	if len(res.Notices) > 0 || len(res.Index.GetSets()) != 1 {
		t.Errorf("%v, sets %v", res.Notices, res.Index.GetSets())
	}
	sound(t, r)
	if _, err := Export(t.Context(), cut, &bytes.Buffer{}, Options{From: 10}); !errors.Is(err, history.ErrGone) {
		t.Errorf("records that were cut: %v", err)
	}
	// Without the set, the records are readable and nothing folds.
	cut.Sets = nil
	if _, res = exported(t, cut, Options{}); len(res.Notices) != 1 || len(res.Index.GetSets()) != 0 {
		t.Errorf("%v", res.Notices)
	}
	if _, res = exported(t, cut, Options{From: 1300}); len(res.Notices) != 1 || res.Index.GetFirst() != 1300 {
		t.Errorf("%v", res.Notices)
	}
}

func TestMissingManifestsAreListed(t *testing.T) {
	m := simulated(112)
	gone := podsIn(m)[0].GetDigest()
	delete(m.Manifests, gone)
	_, res := exported(t, m, Options{})
	if !slices.Equal(res.Index.GetMissingManifests(), []string{gone}) || len(res.Notices) != 1 {
		t.Errorf("%v, %v", res.Index.GetMissingManifests(), res.Notices)
	}
}

// A quarantined actor has missed records that the bundle does not hold: should it be lifted, it cannot be folded.
func TestAnActorQuarantinedBeforeAPartIsNotComplete(t *testing.T) {
	m := simulated(112)
	st, err := statesBefore(t.Context(), m, 801, func(uint64) {})
	must.OK(t, err)
	var pod string
	for _, s := range st.set {
		if ref := messages.RefOf(s.GetActor()); ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
			pod = cmp.Or(pod, ref.ID) // the first one: others may end before the next record
		}
	}
	m.Records = slices.Clone(m.Records[:800])
	for _, e := range []*journaletv1.Event{
		messages.NewEvent(&journaletv1.Quarantined{Kind: "pod", Id: pod, Cause: 800}),
		messages.NewEvent(&journaletv1.ProbeResult{Uid: pod}),
		messages.NewEvent(&journaletv1.AgentStopped{}),
		messages.NewEvent(&journaletv1.QuarantineLifted{Kind: "pod", Id: pod}),
	} {
		m.Records = append(m.Records, &journaletv1.Record{
			Seq: uint64(len(m.Records)) + 1, Epoch: 99, Actor: messages.Agent.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
		})
	}
	whole, _ := exported(t, m, Options{})
	part, res := exported(t, m, Options{From: 803})
	if !whole.Complete(messages.Pod(pod)) || part.Complete(messages.Pod(pod)) || !part.Complete(messages.Node) ||
		len(res.Notices) != 1 || !strings.Contains(res.Notices[0], "quarantined") {
		t.Errorf("complete: %v and %v, %v", whole.Complete(messages.Pod(pod)), part.Complete(messages.Pod(pod)), res.Notices)
	}
	set, err := part.Snapshot(t.Context(), part.Index().GetSets()[0].GetBarrier())
	must.OK(t, err)
	i := slices.IndexFunc(set, func(s *journaletv1.Snapshot) bool { return s.GetActor().GetId() == pod })
	if set[i].GetQuarantined() == nil || set[i].GetContained() == 0 {
		t.Errorf("its state does not say that it is quarantined: %v", set[i])
	}
}
