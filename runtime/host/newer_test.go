package host

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// unknownField is a field of a version to come.
func unknownField() []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), []byte("x"))
}

func newerEvent() *journaletv1.Event {
	e := new(journaletv1.Event)
	e.ProtoReflect().SetUnknown(unknownField())
	return e
}

// newerCall asks for work that this version cannot do.
func newerCall() *journaletv1.Event {
	call := &journaletv1.CallRequested{PodUid: "p"}
	call.ProtoReflect().SetUnknown(unknownField())
	return &journaletv1.Event{Kind: &journaletv1.Event_CallRequested{CallRequested: call}}
}

func TestWhatANewerVersionWroteIsRefusedAndNotPassedOver(t *testing.T) {
	pod := messages.Pod("p").Proto()
	step := func(e ...*journaletv1.Event) *journaletv1.Record_Step {
		return &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: 1, Decisions: e}}
	}
	body := &journaletv1.Record{Actor: pod}
	body.ProtoReflect().SetUnknown(unknownField())
	field := observed("p")
	field.GetPodObserved().ProtoReflect().SetUnknown(unknownField())
	for name, c := range map[string]struct {
		rec  *journaletv1.Record
		says string // "" for a record that is read
	}{
		"a fact of another kind":        {&journaletv1.Record{Actor: pod, Body: &journaletv1.Record_Fact{Fact: newerEvent()}}, "an event of another kind"},
		"a decision of another kind":    {&journaletv1.Record{Actor: pod, Body: step(observed("p"), newerEvent())}, "an event of another kind"},
		"a call of another kind":        {&journaletv1.Record{Actor: pod, Body: step(newerCall())}, "a call of another kind"},
		"neither fact nor step":         {body, "neither a fact nor a step"},
		"an actor of another kind":      {&journaletv1.Record{Actor: &journaletv1.Actor{Kind: 99, Id: "x"}, Body: step(observed("p"))}, "an actor of kind 99"},
		"another field of a known kind": {&journaletv1.Record{Actor: pod, Body: &journaletv1.Record_Fact{Fact: field}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t)
			c.rec.Seq = 2
			m.records = []*journaletv1.Record{{Seq: 1, Actor: pod, Body: &journaletv1.Record_Fact{Fact: observed("p")}}, c.rec}
			refuses(t, m, c.says, "record 2 ")
		})
	}
}

func TestASnapshotWithMoreThanThisVersionKeepsIsRefused(t *testing.T) {
	inner := &journaletv1.PodState{Observed: &journaletv1.PodObserved{Containers: []*journaletv1.ContainerObservation{{Name: "main"}}}}
	inner.GetObserved().GetContainers()[0].ProtoReflect().SetUnknown(unknownField())
	whole, err := proto.Marshal(&journaletv1.PodState{})
	if err != nil {
		t.Fatal(err)
	}
	deep, err := proto.Marshal(inner)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		state []byte
		says  string
	}{
		{"in the state", slices.Concat(whole, unknownField()), "in its PodState"},
		{"deep in the state", deep, "in its ContainerObservation"},
		{"no other field", whole, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory(t)
			m.records = []*journaletv1.Record{{Seq: 1, Actor: messages.Pod("p").Proto(), Body: &journaletv1.Record_Fact{Fact: observed("p")}}}
			m.barrier, m.snaps = 1, []*journaletv1.Snapshot{{Actor: messages.Pod("p").Proto(), Handled: 1, State: c.state}}
			refuses(t, m, c.says, "the snapshot of pod/p ")
		})
	}
}

// refuses recovers a journal, which must end in an error with these words, or in none.
func refuses(t *testing.T, m *memory, says, where string) {
	t.Helper()
	_, err := New(Options{Journal: m, Snapshots: m, Deciders: AllDeciders, Effects: nothing{}}).Recover()
	if says == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err == nil {
		t.Fatal("it was passed over")
	}
	for _, words := range []string{says, where, "newer", "--root-dir"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("no word of %q in: %v", words, err)
		}
	}
}
