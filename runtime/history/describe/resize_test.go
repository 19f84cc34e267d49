package describe

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestResizeEmitsTheKubeletsEvents(t *testing.T) {
	status := func(kind, reason, message string) *ev {
		return &ev{Kind: &journaletv1.Event_PodStatusChanged{PodStatusChanged: &journaletv1.PodStatusChanged{
			Conditions: []*journaletv1.Condition{{Type: kind, Status: true, Reason: reason, Message: message}},
		}}}
	}
	decided := func(uid string, allocated bool) *ev {
		return &ev{Kind: &journaletv1.Event_ResizeDecided{
			ResizeDecided: &journaletv1.ResizeDecided{Uid: uid, Allocated: allocated, Reason: "OutOfcpu",
				Message: "too little"}}}
	}
	call := callRequested(messages.NewCall(&journaletv1.UpdateContainer{
		Container: "main", Resources: &journaletv1.Resources{CpuRequestMillis: 100, MemoryRequestBytes: 64 << 20,
			MemoryLimitBytes: 128 << 20},
	}))
	p := NewPodEvents(messages.Pod("a"))
	for i, e := range []struct {
		id string
		e  *ev
	}{
		{"", status("PodResizePending", "Infeasible", "never")},
		{"", decided("a", false)},
		{"", status("PodResizePending", "Deferred", "too little")},
		{"", decided("b", true)},
		{"", decided("a", true)},
		{"", status("PodResizeInProgress", "", "")},
		{"1", call}, {"", callFinished("1", journaletv1.CallError_CALL_ERROR_RUNTIME, "no")},
		{"", status("PodResizeInProgress", "Error", "no")},
		{"", &ev{Kind: &journaletv1.Event_ResizeCompleted{ResizeCompleted: &journaletv1.ResizeCompleted{Uid: "a"}}}},
		{"", &ev{Kind: &journaletv1.Event_ResizeStarted{ResizeStarted: &journaletv1.ResizeStarted{Uid: "a"}}}},
	} {
		p.Add(&journaletv1.Record{Seq: uint64(i + 1), Time: timestamppb.Now()}, e.id, e.e)
	}
	var got []string
	for _, e := range p.list {
		got = append(got, fmt.Sprintf("#%d %s %s: %s", e.Seq, e.Type, e.Reason, e.Message))
	}
	want := []string{
		"#1 Warning ResizeInfeasible: never",
		"#3 Warning ResizeDeferred: too little",
		"#5 Normal ResizeStarted: Allocated the new resources",
		"#9 Warning ResizeError: no",
		"#10 Normal ResizeCompleted: All running containers have their new resources",
		"#11 Normal ResizeStarted: Containers run with other resources than allocated",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events\n%q\nwant\n%q", got, want)
	}
	const text = "resize container main to cpu request 100m, memory request 64.0 MiB, memory limit 128.0 MiB"
	if got := describeCall(call.GetCallRequested()).String(); got != text {
		t.Errorf("the call is described as %q", got)
	}
}
