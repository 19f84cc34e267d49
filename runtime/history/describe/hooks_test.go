package describe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func hookCall(kind journaletv1.HookKind, id string) *journaletv1.Event {
	h := &journaletv1.RunHook{Container: "main", ContainerId: id, Kind: kind}
	if kind == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		h.Timeout, h.Reason = durationpb.New(30*time.Second), "pod removed"
	}
	return callRequested(messages.NewCall(h))
}

func callRequested(c *journaletv1.CallRequested) *journaletv1.Event {
	return messages.NewEvent(c)
}

func callFinished(id string, code journaletv1.CallError, message string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.CallFinished{IntentId: id, Error: code, Message: message})
}

func TestHooksEmitTheKubeletsEvents(t *testing.T) {
	const failed, cut = journaletv1.CallError_CALL_ERROR_HOOK, journaletv1.CallError_CALL_ERROR_WITHDRAWN
	post, pre := journaletv1.HookKind_HOOK_KIND_POST_START, journaletv1.HookKind_HOOK_KIND_PRE_STOP
	stop := callRequested(messages.NewCall(&journaletv1.StopContainer{
		Container: "main", ContainerId: "c", Grace: durationpb.New(10 * time.Second), Reason: "pod removed",
	}))
	p := NewPodEvents(messages.Pod("a"))
	for i, e := range []struct {
		id string
		e  *journaletv1.Event
	}{
		{"1", hookCall(post, "b")}, {"", callFinished("1", failed, "Exec lifecycle hook failed")},
		{"2", hookCall(post, "c")}, {"", callFinished("2", cut, "cut short")},
		{"3", hookCall(pre, "c")}, {"", callFinished("3", failed, "it took too long")},
		{"4", stop}, {"", callFinished("4", cut, "cut short")}, {"5", stop},
	} {
		p.Add(&journaletv1.Record{Seq: uint64(i + 1), Time: timestamppb.Now()}, e.id, e.e)
	}
	var got []string
	for _, e := range p.list {
		got = append(got, fmt.Sprintf("#%d %s %s: %s", e.Seq, e.Type, e.Reason, e.Message))
	}
	want := []string{
		"#2 Warning FailedPostStartHook: PostStart hook of container main failed: Exec lifecycle hook failed",
		"#5 Normal Killing: Stopping container main, its preStop hook first (pod removed)",
		"#6 Warning FailedPreStopHook: PreStop hook of container main failed: it took too long",
		"#9 Normal Killing: Stopping container main, grace period 10s (pod removed)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestHooksAreDescribed(t *testing.T) {
	for want, e := range map[string]*journaletv1.Event{
		"requested: run the postStart hook of container main": hookCall(journaletv1.HookKind_HOOK_KIND_POST_START, "c"),
		"requested: run the preStop hook of container main, within 30s (pod removed)": hookCall(
			journaletv1.HookKind_HOOK_KIND_PRE_STOP, "c"),
	} {
		if got := New().Describe("", messages.Pod("a"), e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
