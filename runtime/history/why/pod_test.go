package why_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

// uids returns the UIDs of the pods that a journal has.
func uids(m *history.Memory) map[string]bool {
	out := map[string]bool{}
	for _, rec := range m.Records {
		if rec.GetActor().GetKind() == journaletv1.ActorKind_ACTOR_KIND_POD {
			out[rec.GetActor().GetId()] = true
		}
	}
	return out
}

// moments returns the first record of each kind of event about pods, with the UIDs of these pods.
func moments(m *history.Memory) map[uint64][]string {
	seen, out := map[string]bool{}, map[uint64][]string{}
	for _, rec := range m.Records {
		for _, e := range messages.Events(rec) {
			concerned := history.PodsOf(messages.RefOf(rec.GetActor()), e)
			if name := messages.EventName(e); len(concerned) > 0 && !seen[name] {
				seen[name] = true
				out[rec.GetSeq()] = append(out[rec.GetSeq()], concerned...)
			}
		}
	}
	return out
}

// TestEveryPodHasAnAnswer queries every pod, and every restart, of runs under faults as they were at several moments,
// and at once after each kind of event the pods that it concerns.
func TestEveryPodHasAnAnswer(t *testing.T) {
	all, err := filepath.Glob(histories + "/*.records")
	must.OK(t, err)
	pods, restarts := 0, 0
	for _, path := range all {
		whole := read(t, path)
		whole.Manifests = recording.Manifests(t, path)
		for part := 1; part <= 4; part++ {
			end := len(whole.Records) * part / 4
			m := &history.Memory{Name: whole.Name, Manifests: whole.Manifests, Records: whole.Records[:end]}
			for uid := range uids(m) {
				p, r := query(t, filepath.Base(path), m, uid)
				pods, restarts = pods+p, restarts+r
			}
		}
		for seq, concerned := range moments(whole) {
			m := &history.Memory{Name: whole.Name, Manifests: whole.Manifests, Records: whole.Records[:seq]}
			for _, uid := range concerned {
				p, r := query(t, filepath.Base(path), m, uid)
				pods, restarts = pods+p, restarts+r
			}
		}
	}
	t.Logf("%d answers about pods, %d about restarts", pods, restarts)
	if pods < 100 || restarts < 50 {
		t.Error("too few to show anything")
	}
}

// query queries a pod and its restarts, and returns how many answers there were.
func query(t *testing.T, where string, m *history.Memory, uid string) (pods, restarts int) {
	t.Helper()
	a, err := why.Explain(t.Context(), m, why.Query{Pod: uid})
	var missing *why.NotFoundError
	switch {
	case errors.As(err, &missing):
		return 0, 0 // named, and never there
	case err != nil:
		t.Fatalf("%s: %s: %v", where, uid, err)
	}
	_, last := m.Bounds()
	if a.State == "" || a.Because == "" && !strings.Contains(a.State, "and Ready") || len(a.Reasons) == 0 {
		t.Errorf("%s, to record %d: no reason\n%s", where, last, lines(a))
	}
	for i, l := range a.Reasons {
		if l.Text == "" || l.Seq == 0 || l.Seq > last || i > 0 && l.Seq < a.Reasons[i-1].Seq {
			t.Errorf("%s: reason %d of %s is out of order or empty: %+v", where, i, uid, l)
		}
	}
	for n := uint32(1); ; n++ {
		for _, container := range []string{"main0", "main1", "init0", "side2"} {
			a, err := why.Explain(t.Context(), m, why.Query{Pod: uid, Container: container, Restart: n})
			if errors.As(err, &missing) {
				if container == "side2" {
					return 1, restarts
				}
				continue
			}
			must.OK(t, err)
			restarts++
			if a.Because == "" || a.Since.IsZero() || len(a.Reasons) == 0 {
				t.Errorf("%s, to record %d: restart %d of %s\n%s", where, last, n, container, lines(a))
			}
		}
	}
}

func lines(a *why.Answer) string {
	var b strings.Builder
	for _, l := range a.Text(a.Time) {
		b.WriteString("    " + l.Text + "\n")
	}
	return b.String()
}
