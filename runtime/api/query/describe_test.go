package query

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

type ev = journaletv1.Event

func TestEveryEventOfTheContractHasWords(t *testing.T) {
	for i := range kinds.Len() {
		fd := kinds.Get(i)
		e := &journaletv1.Event{}
		e.ProtoReflect().Mutable(fd)
		text := Describe(messages.Pod("u1"), e)
		d, told := NewDescriber(), ""
		for _, f := range []func(string, messages.Ref, *journaletv1.Event) string{d.agentEvent, d.podEvent, d.callEvent, d.imageOrNode, d.resizeEvent} {
			told += f("", messages.Pod("u1"), e)
		}
		if told != text {
			t.Errorf("%s has no words of its own: it is told as %q", fd.Name(), text)
		}
		if strings.ContainsAny(text, "\n\t") || strings.Contains(text, "%!") {
			t.Errorf("%s: %q", fd.Name(), text)
		}
	}
	if got := Describe(messages.Pod("u1"), &journaletv1.Event{}); got != "an event of a newer version" {
		t.Errorf("an unknown event is told as %q", got)
	}
}

func TestEventsAreToldInShortLines(t *testing.T) {
	intent := messages.DecisionID(1, 7, messages.Pod("u1"), 0)
	d := NewDescriber()
	d.Describe("", messages.Source("file"), added("u1", "default", "web"))
	d.Describe(intent, messages.Pod("u1"), startCall(2))
	for _, c := range []struct {
		want string
		e    *ev
	}{
		{"begin: start container main (attempt 2) of web", &ev{Kind: &journaletv1.Event_CallDispatched{CallDispatched: &journaletv1.CallDispatched{IntentId: intent}}}},
		{"look whether it was done: start container main (attempt 2) of web (begun 3s ago)", &ev{Kind: &journaletv1.Event_CallDispatched{CallDispatched: &journaletv1.CallDispatched{IntentId: intent, InDoubt: true, Elapsed: durationpb.New(3 * time.Second)}}}},
		{"done: start container main (attempt 2) of web", finished(intent, "pod/u1", 0, "")},
		{"failed: start container main (attempt 2) of web (Start): no such file", finished(intent, "pod/u1", journaletv1.CallError_CALL_ERROR_START, "no such\n file")},
		{"done: a call of pod/web", finished(messages.DecisionID(1, 9, messages.Pod("u1"), 0), "pod/u1", 0, "")},
		{"container main running", observed("u1", container("c0", 0, journaletv1.ContainerState_CONTAINER_STATE_RUNNING, 0, ""))},
		{"container main exited 137 (OOMKilled)", observed("u1", container("c0", 0, journaletv1.ContainerState_CONTAINER_STATE_EXITED, 137, "OOMKilled"))},
		{"container main (attempt 1) running", observed("u1", container("c0", 0, journaletv1.ContainerState_CONTAINER_STATE_EXITED, 137, "OOMKilled"), container("c1", 1, journaletv1.ContainerState_CONTAINER_STATE_RUNNING, 0, ""))},
		{"container main (attempt 0) is gone", observed("u1", container("c1", 1, journaletv1.ContainerState_CONTAINER_STATE_RUNNING, 0, ""))},
		{"the pod looks different in details", observed("u1", container("c1", 1, journaletv1.ContainerState_CONTAINER_STATE_RUNNING, 0, ""))},
		{"nothing of the pod is on the node", observed("u2")},
		{"status: Running, not Ready, main CrashLoopBackOff, 3 restarts", &ev{Kind: &journaletv1.Event_PodStatusChanged{PodStatusChanged: &journaletv1.PodStatusChanged{
			Phase: journaletv1.PodPhase_POD_PHASE_RUNNING, Restarts: 3, Conditions: []*journaletv1.Condition{{Type: "Ready"}},
			Waiting: map[string]*journaletv1.ContainerWaiting{"main": {Reason: "CrashLoopBackOff"}, "side": {}},
		}}}},
		{"reject pod web (OutOfcpu): 2 cpu wanted", &ev{Kind: &journaletv1.Event_AdmissionDecided{AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u1", Reason: "OutOfcpu", Message: "2 cpu wanted"}}}},
		{"quarantine pod/web, which failed on #9 (Panic): index out of range", &ev{Kind: &journaletv1.Event_Quarantined{Quarantined: &journaletv1.Quarantined{
			Kind: "pod", Id: "u1", Cause: 9, Code: journaletv1.DecisionError_DECISION_ERROR_PANIC, Message: "index out of range"}}}},
		{"source file was read: a.yaml, b.yaml (gone) with 1 pod, 2 problems", &ev{Kind: &journaletv1.Event_ManifestsRead{ManifestsRead: &journaletv1.ManifestsRead{Source: "file", Changed: []*journaletv1.ManifestFile{
			{Path: "a.yaml", Pods: []*journaletv1.PodRef{podRef("u1", "default", "web")}, Problems: []*journaletv1.ManifestProblem{{}, {}}}, {Path: "b.yaml"},
		}}}}},
		{"containerd v2 is ready, its network is not: no CNI", &ev{Kind: &journaletv1.Event_RuntimeHealthChanged{RuntimeHealthChanged: &journaletv1.RuntimeHealthChanged{
			RuntimeReady: true, Message: "no CNI", RuntimeName: "containerd", RuntimeVersion: "v2"}}}},
		{"stop container main, grace 30s (pod removed)", &ev{Kind: &journaletv1.Event_CallRequested{CallRequested: &journaletv1.CallRequested{Work: &journaletv1.CallRequested_StopContainer{
			StopContainer: &journaletv1.StopContainer{Container: "main", Grace: durationpb.New(30 * time.Second), Reason: "pod removed"}}}}}},
	} {
		if got := d.Describe("", messages.Pod("u1"), c.e); got != c.want {
			t.Errorf("told %q, want %q", got, c.want)
		}
	}
}

func TestADescriberForgetsTheOldestFirst(t *testing.T) {
	var m memory[int]
	for i := range maxRemembered + 10 {
		m.put(strings.Repeat("x", i), i)
	}
	if _, old := m.m[strings.Repeat("x", 9)]; old || len(m.m) != maxRemembered || m.m[strings.Repeat("x", 10)] != 10 {
		t.Fatalf("it keeps %d", len(m.m))
	}
}

func TestPodsOfFindsThePodInEveryEventThatNamesOne(t *testing.T) {
	intent := messages.DecisionID(1, 7, messages.Pod("u1"), 0)
	for _, e := range []*ev{
		added("u1", "default", "web"), finished("", "pod/u1", 0, ""), imageAnswered("u1"),
		{Kind: &journaletv1.Event_CallDispatched{CallDispatched: &journaletv1.CallDispatched{IntentId: intent}}},
		{Kind: &journaletv1.Event_AdmissionDecided{AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u1"}}},
		{Kind: &journaletv1.Event_Quarantined{Quarantined: &journaletv1.Quarantined{Kind: "pod", Id: "u1"}}},
		{Kind: &journaletv1.Event_QuarantineLifted{QuarantineLifted: &journaletv1.QuarantineLifted{Kind: "pod", Id: "u1"}}},
		{Kind: &journaletv1.Event_CallRequested{CallRequested: &journaletv1.CallRequested{PodUid: "u1"}}},
	} {
		if got := PodsOf(messages.Runtime, e); len(got) != 1 || got[0] != "u1" {
			t.Errorf("%s is about %v", messages.EventName(e), got)
		}
	}
}

func TestATellerAsksOnlyForCausesItHasNotShown(t *testing.T) {
	w := newWorld(t)
	story(w)
	w.flush(t)
	c := w.client(t)
	asked := 0
	teller := NewTeller(NewDescriber(), func(ctx context.Context, seq uint64) (*RecordReport, error) {
		asked++
		return c.Record(ctx, seq)
	})
	page, err := c.Read(testContext(t), ReadRequest{From: 4})
	if err != nil {
		t.Fatal(err)
	}
	var causes []string
	for _, f := range page.Events {
		if l := teller.Tell(testContext(t), f); l.Cause > 0 {
			causes = append(causes, l.CauseText)
		}
	}
	// Record 4 (two decisions) answers 3, which was not shown; 8 (two) and 9 answer 7, which was.
	if asked != 1 || len(causes) != 5 || !strings.HasPrefix(causes[0], "image busybox:1.36 is there") || causes[4] != "container main exited 1 (Error)" {
		t.Fatalf("asked %d times, told %q", asked, causes)
	}
}
