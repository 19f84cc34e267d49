package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
	"github.com/journalet/journalet/test/must"
)

func TestPodsAreListedByNamespaceAndName(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u2", "shop", "web")
	w.host.addPod(t, "u3", "default", "web")
	w.host.addPod(t, "u1", "default", "api")
	c := w.client(t)
	all, err := c.Pods(testContext(t), "")
	must.OK(t, err)
	var names []string
	for _, p := range all.Items {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	if want := []string{"default/api", "default/web", "shop/web"}; !slices.Equal(names, want) {
		t.Fatalf("listed %v, want %v", names, want)
	}
	if p := all.Items[0]; p.Kind != "Pod" || p.Status.HostIP != "192.0.2.1" {
		t.Fatalf("the view of a pod is %+v", p)
	}
	shop, err := c.Pods(testContext(t), "shop")
	if err != nil || len(shop.Items) != 1 {
		t.Fatalf("namespace shop has %+v, %v", shop, err)
	}
}

func TestListBeyondOneResponseComesInPages(t *testing.T) {
	w := newTestAgent(t)
	const n = 40
	for i := range n {
		w.host.addPod(t, fmt.Sprintf("u%02d", i), "default", fmt.Sprintf("web-%02d", i), strings.Repeat("x", 200<<10))
	}
	pods, err := w.client(t).Pods(testContext(t), "")
	must.OK(t, err)
	if len(pods.Items) != n || pods.Continue != "" {
		t.Fatalf("got %d pods of %d", len(pods.Items), n)
	}
}

func TestQuarantinedPodShowsItsQuarantine(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u1", "default", "web")
	w.host.quarantined[messages.Pod("u1")] = &journaletv1.Quarantined{
		Kind: "pod", Id: "u1", Cause: 7, Code: journaletv1.DecisionError_DECISION_ERROR_ILLEGAL_TRANSITION, Message: "no way",
	}
	r, err := w.client(t).Pod(testContext(t), PodRequest{Pod: "web"})
	must.OK(t, err)
	if s := r.Pod.Status; s.Reason != describe.ReasonQuarantined || s.Message != "IllegalTransition on record 7: no way" {
		t.Fatalf("its status is %q, %q", s.Reason, s.Message)
	}
	if r.Quarantine == nil || r.Quarantine.Cause != 7 {
		t.Fatalf("its report says %+v", r.Quarantine)
	}
}

func TestHangingActorIsReportedAndDelaysNoOtherPod(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u1", "default", "web")
	w.host.addPod(t, "u2", "default", "api")
	w.host.stuck[messages.Pod("u1")] = true
	pods, err := w.client(t).Pods(testContext(t), "")
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("got %v, %v", pods, err)
	}
	if p := pods.Items[0]; p.UID != "u1" || p.Status.Reason != "NotResponding" {
		t.Fatalf("the pod of the hanging actor has status %+v", p.Status)
	}
}

// restartedAgent returns an agent that has recorded a restart.
func restartedAgent(t testing.TB) *testAgent {
	t.Helper()
	w := newTestAgent(t)
	recordRestart(w)
	w.flush(t)
	return w
}

// recordRestart records how a pod's container failed and started again, and returns the pod's UID.
func recordRestart(w *testAgent) string {
	p := messages.Pod("u1")
	w.step(messages.Source(messages.FileSource), 1, 0, added("u1", "default", "web")) // 1, without a cause
	w.step(p, 2, 1, messages.NewEvent(&journaletv1.ImagePullRequested{Uid: "u1", Image: "busybox:1.36"}))
	w.step(messages.Image, 3, 2, imagePullDecided("u1"), imagePullDecided("u9"))
	w.step(p, 4, 3, startCall(0), timerSet("back-off main"))
	w.fact(p, 5, callResult(messages.DecisionID(1, 3, p, 0), "pod/u1", 0, ""))
	w.fact(p, 6, observed("u1", container("c0", 0, journaletv1.ContainerState_CONTAINER_STATE_RUNNING, 0, "")))
	w.fact(p, 7, observed("u1", container("c0", 0, journaletv1.ContainerState_CONTAINER_STATE_EXITED, 1, "Error")))
	w.step(p, 8, 7, backOff(10*time.Second), crashLoop("back-off 10s"))
	w.step(p, 9, 7, startCall(1))
	w.fact(p, 10, callResult(messages.DecisionID(1, 7, p, 0), "pod/u1",
		journaletv1.CallError_CALL_ERROR_START, "no memory"))
	w.fact(messages.Pod("u2"), 11, observed("u2"))
	return "u1"
}

func TestPodReportListsDecisionsWithTheirCauses(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u1", "default", "web")
	recordRestart(w)
	w.flush(t)
	r, err := w.client(t).Pod(testContext(t), PodRequest{Pod: "default/web"})
	must.OK(t, err)
	var got []string
	for _, l := range r.Decisions {
		got = append(got, fmt.Sprintf("#%d %s because #%d %s", l.Seq, l.Text, l.Cause, l.CauseText))
	}
	want := []string{
		"#2 requested image busybox:1.36 because #1 added pod default/web (source file)",
		"#4 requested: start container main because #3 image busybox:1.36 present for pod web (pulled in 1.23s, 3.0 MiB)",
		"#8 back-off 10s restarting container main because #7 container main exited 1 (Error)",
		"#8 status: Running, main CrashLoopBackOff because #7 container main exited 1 (Error)",
		"#9 requested: start container main (attempt 1) because #7 container main exited 1 (Error)",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = nil
	for _, e := range r.Events {
		got = append(got, fmt.Sprintf("#%d %s %s", e.Seq, e.Type, e.Reason))
	}
	want = []string{"#2 Normal Pulling", "#3 Normal Pulled", "#5 Normal Created", "#5 Normal Started",
		"#8 Warning BackOff", "#10 Warning Failed"}
	if !slices.Equal(got, want) {
		t.Fatalf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.FirstSeq != 2 || r.LastSeq != 10 || r.Source != "file" || r.Stage != "Admitting" {
		t.Fatalf("the rest of the report is %d to %d, %q, %q", r.FirstSeq, r.LastSeq, r.Source, r.Stage)
	}
}

func TestPagesContinueWhereTheLastOneEnded(t *testing.T) {
	w := newTestAgent(t)
	for i := range 12 {
		w.step(messages.Pod("u1"), i, uint64(i), startCall(0), timerSet("t"))
	}
	w.flush(t)
	c := w.client(t)
	var got []string
	for from := uint64(1); ; {
		page, err := c.Read(testContext(t), ReadRequest{From: from, Limit: 5})
		must.OK(t, err)
		for _, f := range page.Events {
			got = append(got, fmt.Sprintf("%d.%d", f.Seq, f.Index))
		}
		if from = page.Next; from > page.Last {
			break
		}
	}
	if len(got) != 24 || got[0] != "1.0" || got[23] != "12.1" || len(slices.Compact(slices.Clone(got))) != 24 {
		t.Fatalf("read %v", got)
	}
}

func TestFilterOnAPodFindsDecisionsOfOtherActorsAboutIt(t *testing.T) {
	w := restartedAgent(t) // the pod has no actor: its UID is in the journal
	c := w.client(t)
	page, err := c.Read(testContext(t), ReadRequest{Filter: history.Filter{Pods: []string{"web"}}})
	must.OK(t, err)
	var got []string
	for _, f := range page.Events {
		got = append(got, fmt.Sprintf("%d %s", f.Seq, f.Event))
	}
	want := []string{
		"1 pod_updated", "2 image_pull_requested", "3 image_pull_decided", "4 call_requested",
		"4 timer_set", "5 call_finished",
		"6 pod_observed", "7 pod_observed", "8 back_off_started", "8 pod_status_changed", "9 call_requested",
		"10 call_finished",
	}
	if !slices.Equal(got, want) || !slices.Equal(page.Filter.UIDs, []string{"u1"}) {
		t.Fatalf("read %q of %v, want %q", got, page.Filter.UIDs, want)
	}
	requests := history.Filter{Pods: []string{"u1"}, Kind: "pod", Events: []string{"call_requested"}}
	page, err = c.Read(testContext(t), ReadRequest{Filter: requests})
	if err != nil || len(page.Events) != 2 {
		t.Fatalf("three filters at once select %+v, %v", page.Events, err)
	}
}

func TestReadingAfterAnEventBeginsWithTheNextOne(t *testing.T) {
	w := restartedAgent(t)
	epoch := w.bus.Opening().Epoch
	for after, want := range map[messages.Position]string{
		{Epoch: epoch, Seq: 3}:            "3.1",
		{Epoch: epoch, Seq: 3, Index: 1}:  "4.0",
		{Epoch: epoch, Seq: 11}:           "",
		{}:                                "1.0",
		{Epoch: epoch - 1, Seq: 4}:        "1.0", // of a run whose records are lost
		{Epoch: epoch - 1, Seq: 99}:       "1.0",
		{Epoch: epoch, Seq: 99, Index: 9}: "",
	} {
		page, err := w.client(t).Read(testContext(t), ReadRequest{After: &after, Limit: 1})
		must.OK(t, err)
		got := ""
		if len(page.Events) > 0 {
			got = fmt.Sprintf("%d.%d", page.Events[0].Seq, page.Events[0].Index)
		}
		if got != want {
			t.Errorf("after %s comes %q, want %q", after, got, want)
		}
	}
}

func TestPagesOfAFilterOnACauseContinueWhereTheLastEnded(t *testing.T) {
	w := restartedAgent(t)
	q := ReadRequest{From: 4, Limit: 1, Filter: history.Filter{Cause: 2}}
	var got []string
	for {
		page, err := w.client(t).Read(testContext(t), q)
		must.OK(t, err)
		for _, f := range page.Events {
			got = append(got, fmt.Sprintf("%d.%d", f.Seq, f.Index))
		}
		if page.Next > page.Last {
			break
		}
		q.From, q.Filter = page.Next, page.Filter
	}
	if want := []string{"4.0", "4.1", "5.0"}; !slices.Equal(got, want) {
		t.Fatalf("record 2 led to %v, want %v", got, want)
	}
}

func TestReadingSinceATimeBeginsThere(t *testing.T) {
	w := restartedAgent(t)
	for sec, want := range map[int]uint64{0: 1, 1: 1, 6: 6, 11: 11, 12: 0} {
		page, err := w.client(t).Read(testContext(t), ReadRequest{Since: at(sec), Limit: 1})
		must.OK(t, err)
		var got uint64
		if len(page.Events) > 0 {
			got = page.Events[0].Seq
		}
		if got != want {
			t.Errorf("since second %d begins at %d, want %d", sec, got, want)
		}
	}
}

func TestRecordIsRenderedWithItsCause(t *testing.T) {
	w := restartedAgent(t)
	r, err := w.client(t).Record(testContext(t), 8)
	if err != nil || len(r.Events) != 2 || r.Events[0].CauseText != "container main exited 1 (Error)" || r.Hash == "" {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestVerifySendsProgressThenTheReport(t *testing.T) {
	w := restartedAgent(t)
	calls := 0
	report, err := w.client(t).Verify(testContext(t), func(done, total uint64) { calls++ })
	if err != nil || report.Records != 11 || calls == 0 {
		t.Fatalf("got %+v after %d calls, %v", report, calls, err)
	}
}

func TestSizeAndInfoRespond(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u1", "default", "web")
	recordRestart(w)
	w.flush(t)
	c := w.client(t)
	size, err := c.Size(testContext(t))
	if err != nil || size.Journal.Count != 11 || len(size.Pods) != 2 {
		t.Fatalf("size is %+v, %v", size, err)
	}
	info, err := c.Info(testContext(t))
	if err != nil || info.Node != testNode || info.JournalLast != 11 || info.Actors["pod"] != 1 || info.Epoch != 1 ||
		info.Runtime != "containerd" {
		t.Fatalf("info is %+v, %v", info, err)
	}
}

func TestBadRequestsGetErrorsThatSayWhy(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u1", "a", "web")
	w.host.addPod(t, "u2", "b", "web")
	c := w.client(t)
	for _, q := range []struct {
		request, data string
		code          int
		want          string
	}{
		{PodsGet, `{}`, 400, "no pod given"},
		{PodsGet, `{"pod":"none"}`, 404, `pod "none" not found`},
		{PodsGet, `{"pod":"web"}`, 400, "a/web (UID u1), b/web (UID u2)"},
		{PodsGet, `{"pod":"web","lines":9999}`, 400, "at most 200"},
		{PodsList, `{"nmespace":"x"}`, 400, "unknown field"},
		{PodsList, `{`, 400, "decode the request"},
		{PodsList, `{} {}`, 400, "more data"},
		{RecordsRead, `{"limit":501}`, 400, "1 to 500"},
		{RecordsRead, `{"kind":"pots"}`, 400, "not a kind of actor"},
		{RecordsRead, `{"events":["pod_exploded"]}`, 400, "want one of a"},
		{RecordsRead, `{"from":1,"since":"2026-01-01T00:00:00Z"}`, 400, "one of them"},
		{RecordsRead, `{"from":1,"after":{"epoch":1,"seq":1}}`, 400, "one of them"},
		{RecordsRead, `{"after":{"epoch":-1}}`, 400, "decode the request"},
		{RecordsGet, `{}`, 400, "no record given"},
		{RecordsGet, `{"seq":99}`, 404, "record 99 not found"},
		{JournalVerify, `{"x":1}`, 400, "unknown field"},
	} {
		m, err := c.Conn().Request(Subject(testNode, q.request), []byte(q.data), time.Minute)
		must.OK(t, err)
		err = decodeResponse(m, &struct{}{})
		var e *Error
		if !errors.As(err, &e) || e.Code != q.code || !strings.Contains(e.Message, q.want) {
			t.Errorf("%s %s: got %v, want %d ... %s", q.request, q.data, err, q.code, q.want)
		}
	}
}

func TestServicesAreFoundAsNATSMicroServices(t *testing.T) {
	w := newTestAgent(t)
	c := w.client(t)
	m, err := c.Conn().Request("$SRV.INFO."+Service, nil, time.Minute)
	must.OK(t, err)
	var info micro.Info
	must.OK(t, json.Unmarshal(m.Data, &info))
	var subjects []string
	for _, e := range info.Endpoints {
		subjects = append(subjects, e.Subject)
	}
	if info.Version != "1.2.3" || !slices.Contains(subjects, "journalet.node-1_example.pods.list") || len(subjects) != 18 {
		t.Fatalf("found %+v", info)
	}
}

func TestNoResponseAfterStop(t *testing.T) {
	w := newTestAgent(t)
	c := w.client(t)
	w.stop()
	if _, err := c.Info(testContext(t)); !errors.Is(err, ErrNoAgent) {
		t.Fatalf("got %v", err)
	}
	w.stop() // a second time does nothing
}

func TestEventOfAFlatIsTheFlattenedOne(t *testing.T) {
	step := &journaletv1.Step{Cause: 2, Decisions: []*journaletv1.Event{startCall(4)}}
	rec := &journaletv1.Record{Seq: 3, Actor: messages.Pod("u1").Proto(), Body: &journaletv1.Record_Step{Step: step}}
	flats := messages.Flatten(testNode, rec)
	e, err := history.Event(&flats[0])
	if err != nil || e.GetCallRequested().GetStartContainer().GetAttempt() != 4 {
		t.Fatalf("got %v, %v", e, err)
	}
	if _, err := history.Event(&messages.Flat{Event: "of_the_future"}); err == nil {
		t.Fatal("an unknown event was read")
	}
}

func TestLiftEndsAQuarantineOrSaysWhyNot(t *testing.T) {
	w := newTestAgent(t)
	w.host.addPod(t, "u1", "default", "web")
	w.host.addPod(t, "u2", "default", "other")
	w.host.quarantined[messages.Pod("u1")] = &journaletv1.Quarantined{Kind: "pod", Id: "u1", Cause: 7}
	w.host.quarantined[messages.Runtime] = &journaletv1.Quarantined{Kind: "runtime", Id: "0", Cause: 8}
	w.host.lifts = errors.New("record 7: no way")
	nc, err := bus.DialControl(testContext(t), w.dir)
	must.OK(t, err)
	t.Cleanup(nc.Close)
	c, err := NewLocalClient(testContext(t), nc, nil)
	must.OK(t, err)
	for request, want := range map[LiftRequest]string{
		{Actor: "web"}:       "pod/u1 is still quarantined: record 7: no way",
		{Actor: "other"}:     "pod/u2 is not quarantined",
		{Actor: "source/x"}:  `actor "source/x" not found`,
		{Actor: "runtime/0"}: "runtime/0 is still quarantined",
	} {
		if _, err := c.Lift(testContext(t), request); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lift %v: %v, want %s", request, err, want)
		}
	}
	for request, want := range map[LiftRequest]string{
		{Actor: "web", Skip: true}: "pod/u1", {Actor: "runtime/0", Skip: true}: "runtime/0",
	} {
		if r, err := c.Lift(testContext(t), request); err != nil || r.Actor != want {
			t.Errorf("lift %v: %v, %v", request, r, err)
		}
	}
	// The key for queries permits no change.
	denied := make(chan error, 1)
	reader, err := bus.Dial(testContext(t), w.dir, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		denied <- err
	}))
	must.OK(t, err)
	t.Cleanup(reader.Close)
	must.OK(t, reader.Publish(Subject(testNode, QuarantineLift), []byte(`{"actor":"web"}`)))
	if err := <-denied; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("with the key for queries: %v", err)
	}
}
