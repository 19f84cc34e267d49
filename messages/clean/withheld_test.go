package clean

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestWhatContainersAndPluginsSayIsLeftOutOfEachEvent(t *testing.T) {
	words := []string{"ContainerObservation.message", "NamedValue.value", "ProbeResult.message"}
	kinds, seen := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields(), map[string]bool{}
	for i := range kinds.Len() {
		fields := map[string]bool{}
		e := filled(kinds.Get(i), func(fd protoreflect.FieldDescriptor) string {
			if slices.Contains(words, Name(fd)) {
				return "my words"
			}
			return "other"
		})
		texts(e.ProtoReflect(), func(name, s string) { // a work of a call has taken the place of those before it
			if s == "my words" {
				fields[name], seen[name] = true, true
			}
		})
		step := &journaletv1.Step{Cause: 1, Decisions: []*journaletv1.Event{messages.NewEvent(&journaletv1.TimerSet{}), e}}
		for _, rec := range []*journaletv1.Record{
			{Seq: 2, Body: &journaletv1.Record_Fact{Fact: e}}, {Seq: 2, Body: &journaletv1.Record_Step{Step: step}},
		} {
			before := proto.CloneOf(rec)
			got := Withheld(rec)
			if !proto.Equal(rec, before) || (got == rec) != (len(fields) == 0) {
				t.Errorf("%s: the record was changed, or copied for nothing", kinds.Get(i).Name())
			}
			events := messages.Events(got)
			texts(events[len(events)-1].ProtoReflect(), func(name, s string) {
				if s == "my words" || fields[name] && s != Mark || !fields[name] && s != "other" {
					t.Errorf("%s: %s is %q", kinds.Get(i).Name(), name, s)
				}
			})
		}
	}
	if len(seen) != len(words) || len(words) != len(said) {
		t.Errorf("in events are %v, said are %v", seen, said)
	}
}

func TestOutputOfHooksIsLeftOut(t *testing.T) {
	hook := &journaletv1.CallFinished{Error: journaletv1.CallError_CALL_ERROR_HOOK, Message: "it printed"}
	pull := &journaletv1.CallFinished{Error: journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME, Message: "bad name"}
	status := &journaletv1.PodStatusChanged{Waiting: map[string]*journaletv1.ContainerWaiting{
		"a": {Reason: hookError, Message: "it printed"}, "b": {Reason: "ErrImagePull", Message: "bad name"},
	}}
	got := Withheld(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
		Decisions: []*journaletv1.Event{messages.NewEvent(hook), messages.NewEvent(pull), messages.NewEvent(status)},
	}}})
	text := got.String()
	if strings.Contains(text, "it printed") || strings.Count(text, "bad name") != 2 || strings.Count(text, Mark) != 2 {
		t.Error(text)
	}
	if hook.GetMessage() != "it printed" || status.GetWaiting()["a"].GetMessage() != "it printed" {
		t.Error("the record itself was changed")
	}
}
