package describe

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

type ev = journaletv1.Event

func TestEveryEventOfTheContractHasADescription(t *testing.T) {
	kinds := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	for i := range kinds.Len() {
		fd := kinds.Get(i)
		e := &journaletv1.Event{}
		e.ProtoReflect().Mutable(fd)
		text := New().Describe("", messages.Pod("u1"), e)
		own := ""
		for _, describe := range New().describers() {
			own += describe("", e)
		}
		if own != text {
			t.Errorf("%s has no description of its own, got %q", fd.Name(), text)
		}
		if strings.ContainsAny(text, "\n\t") || strings.Contains(text, "%!") {
			t.Errorf("%s: %q", fd.Name(), text)
		}
	}
	if got := New().Describe("", messages.Pod("u1"), &journaletv1.Event{}); got != "event of a newer version" {
		t.Errorf("an unknown event is described as %q", got)
	}
}

func TestEventsAreDescribedInShortLines(t *testing.T) {
	const exited, running = journaletv1.ContainerState_CONTAINER_STATE_EXITED,
		journaletv1.ContainerState_CONTAINER_STATE_RUNNING
	intent := messages.DecisionID(1, 7, messages.Pod("u1"), 0)
	dispatched := func(c *journaletv1.CallDispatched) *ev {
		return &ev{Kind: &journaletv1.Event_CallDispatched{CallDispatched: c}}
	}
	d := New()
	d.Describe("", messages.Source("file"), added("u1", "default", "web"))
	d.Describe(intent, messages.Pod("u1"), startCall(2))
	left := &journaletv1.KubeletState{Pods: map[string]*journaletv1.KubeletPod{"u1": nil}, Problems: []string{"a", "b"}}
	begun := &journaletv1.AgentStarted{Version: "v1", Epoch: 1, KubeletState: left}
	for _, c := range []struct {
		want string
		e    *ev
	}{
		{"starting container main (attempt 2) of web", dispatched(&journaletv1.CallDispatched{IntentId: intent})},
		{"outcome unknown, inspecting the runtime first: start container main (attempt 2) of web (dispatched 3s ago)",
			dispatched(&journaletv1.CallDispatched{IntentId: intent, InDoubt: true, Elapsed: durationpb.New(3 * time.Second)})},
		{
			"agent v1 started on node  (epoch 1), with what a kubelet had given to 1 pod: a; b",
			&ev{Kind: &journaletv1.Event_AgentStarted{AgentStarted: begun}},
		},
		{"started container main (attempt 2) of web", callResult(intent, "pod/u1", 0, "")},
		{"failed to start container main (attempt 2) of web (Start): no such file",
			callResult(intent, "pod/u1", journaletv1.CallError_CALL_ERROR_START, "no such\n file")},
		{"performed a call of pod/web", callResult(messages.DecisionID(1, 9, messages.Pod("u1"), 0), "pod/u1", 0, "")},
		{"container main running", observed("u1", container("c0", 0, running, 0, ""))},
		{"container main exited 137 (OOMKilled)", observed("u1", container("c0", 0, exited, 137, "OOMKilled"))},
		{"container main (attempt 1) running",
			observed("u1", container("c0", 0, exited, 137, "OOMKilled"), container("c1", 1, running, 0, ""))},
		{"container main (attempt 0) removed", observed("u1", container("c1", 1, running, 0, ""))},
		{"details changed", observed("u1", container("c1", 1, running, 0, ""))},
		{"no sandbox and no container", observed("u2")},
		{"status: Running, not Ready, main CrashLoopBackOff, 3 restarts",
			&ev{Kind: &journaletv1.Event_PodStatusChanged{PodStatusChanged: &journaletv1.PodStatusChanged{
				Phase: journaletv1.PodPhase_POD_PHASE_RUNNING, Restarts: 3, Conditions: []*journaletv1.Condition{{Type: "Ready"}},
				Waiting: map[string]*journaletv1.ContainerWaiting{"main": {Reason: "CrashLoopBackOff"}, "side": {}},
			}}}},
		{"admitted pod web, a on exclusive CPUs 2-3, b with memory of NUMA nodes [0], " +
			"c on exclusive CPUs 5 with memory of NUMA nodes [0 1]", &ev{Kind: &journaletv1.Event_AdmissionDecided{
			AdmissionDecided: &journaletv1.AdmissionDecided{
				Uid: "u1", Admitted: true, Exclusive: []*journaletv1.ExclusiveContainer{{Container: "a", Cpus: "2-3"},
					{Container: "b", MemoryNodes: []uint32{0}}, {Container: "c", Cpus: "5", MemoryNodes: []uint32{0, 1}}}}}}},
		{"admitted pod web, a on exclusive CPUs 2; it had CPUs 3, nic-0, nic-1 of example.com/nic, which no other pod gets " +
			"until it ends", &ev{Kind: &journaletv1.Event_AdmissionDecided{
			AdmissionDecided: &journaletv1.AdmissionDecided{
				Uid: "u1", Admitted: true, Exclusive: []*journaletv1.ExclusiveContainer{{Container: "a", Cpus: "2"}},
				Rest: &journaletv1.RestOfResources{Cpus: "3",
					Devices: []*journaletv1.DevicesOfContainer{{Resource: "example.com/nic", Ids: []string{"nic-0", "nic-1"}}}}}}}},
		{"containers without CPUs of their own share CPUs 0-1,4", &ev{Kind: &journaletv1.Event_SharedCpusDecided{
			SharedCpusDecided: &journaletv1.SharedCpusDecided{Cpus: "0-1,4", Pods: []string{"u1"}}}}},
		{"rejected pod web: OutOfcpu: 2 cpu requested", &ev{Kind: &journaletv1.Event_AdmissionDecided{
			AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u1", Reason: "OutOfcpu", Message: "2 cpu requested"}}}},
		{"left pod web alone: PodFeatureUnsupported: iscsi", &ev{Kind: &journaletv1.Event_AdmissionDecided{
			AdmissionDecided: &journaletv1.AdmissionDecided{
				Uid: "u1", Admitted: true, Reason: "PodFeatureUnsupported", Message: "iscsi"}}}},
		{"quarantined pod/web: it failed on #9 (Panic): index out of range",
			&ev{Kind: &journaletv1.Event_Quarantined{Quarantined: &journaletv1.Quarantined{
				Kind: "pod", Id: "u1", Cause: 9, Code: journaletv1.DecisionError_DECISION_ERROR_PANIC,
				Message: "index out of range"}}}},
		{"read source file: a.yaml, b.yaml (removed) with 1 pod, 2 problems", &ev{Kind: &journaletv1.Event_ManifestsRead{
			ManifestsRead: &journaletv1.ManifestsRead{Source: "file", Changed: []*journaletv1.ManifestFile{
				{Path: "a.yaml", Pods: []*journaletv1.PodRef{podRef("u1", "default", "web")},
					Problems: []*journaletv1.ManifestProblem{{}, {}}}, {Path: "b.yaml"},
			}}}}},
		{"containerd v2 ready, network not ready: no CNI", &ev{Kind: &journaletv1.Event_RuntimeHealthChanged{
			RuntimeHealthChanged: &journaletv1.RuntimeHealthChanged{
				RuntimeReady: true, Message: "no CNI", RuntimeName: "containerd", RuntimeVersion: "v2"}}}},
		{"requested: stop container main, grace period 30s (pod removed)",
			callRequested(messages.NewCall(&journaletv1.StopContainer{
				Container: "main", Grace: durationpb.New(30 * time.Second), Reason: "pod removed"}))},
	} {
		if got := d.Describe("", messages.Pod("u1"), c.e); got != c.want {
			t.Errorf("described as %q, want %q", got, c.want)
		}
	}
}

func TestDescriberForgetsTheOldestFirst(t *testing.T) {
	var m memory[int]
	for i := range maxRemembered + 10 {
		m.put(strings.Repeat("x", i), i)
	}
	if _, old := m.m[strings.Repeat("x", 9)]; old || len(m.m) != maxRemembered || m.m[strings.Repeat("x", 10)] != 10 {
		t.Fatalf("it keeps %d", len(m.m))
	}
}
