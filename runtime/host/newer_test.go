package host

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/test/must"
)

// unknownField returns a field of a newer version.
func unknownField() []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), []byte("x"))
}

func newerEvent() *journaletv1.Event {
	e := new(journaletv1.Event)
	e.ProtoReflect().SetUnknown(unknownField())
	return e
}

// newerCall requests work that this version does not know.
func newerCall() *journaletv1.Event {
	call := &journaletv1.CallRequested{PodUid: "p"}
	call.ProtoReflect().SetUnknown(unknownField())
	return messages.NewEvent(call)
}

func TestRecordsOfANewerVersionAreRejected(t *testing.T) {
	pod := messages.Pod("p").Proto()
	factOf := func(e *journaletv1.Event) *journaletv1.Record {
		return &journaletv1.Record{Actor: pod, Body: &journaletv1.Record_Fact{Fact: e}}
	}
	stepOf := func(e ...*journaletv1.Event) *journaletv1.Record {
		step := &journaletv1.Step{Cause: 1, Decisions: e}
		return &journaletv1.Record{Actor: pod, Body: &journaletv1.Record_Step{Step: step}}
	}
	other := stepOf(observed("p"))
	other.Actor = &journaletv1.Actor{Kind: 99, Id: "x"}
	body := &journaletv1.Record{Actor: pod}
	body.ProtoReflect().SetUnknown(unknownField())
	field := observed("p")
	field.GetPodObserved().ProtoReflect().SetUnknown(unknownField())
	for name, c := range map[string]struct {
		rec  *journaletv1.Record
		want string // "" for no error
	}{
		"a fact of another kind":        {factOf(newerEvent()), "has an event"},
		"a decision of another kind":    {stepOf(observed("p"), newerEvent()), "has an event"},
		"a call of another kind":        {stepOf(newerCall()), "requests a call"},
		"neither fact nor step":         {body, "neither fact nor step"},
		"an actor of another kind":      {other, "an actor of kind 99"},
		"another field of a known kind": {factOf(field), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t)
			c.rec.Seq = 2
			first := factOf(observed("p"))
			first.Seq = 1
			m.records = []*journaletv1.Record{first, c.rec}
			recoverFails(t, m, c.want, "record 2 ")
		})
	}
}

func TestSnapshotWithUnknownFieldsIsRejected(t *testing.T) {
	inner := &journaletv1.PodState{Observed: &journaletv1.PodObserved{
		Containers: []*journaletv1.ContainerObservation{{Name: "main"}},
	}}
	inner.GetObserved().GetContainers()[0].ProtoReflect().SetUnknown(unknownField())
	whole, err := proto.Marshal(&journaletv1.PodState{})
	must.OK(t, err)
	deep, err := proto.Marshal(inner)
	must.OK(t, err)
	for _, c := range []struct {
		name  string
		state []byte
		want  string
	}{
		{"in the state", slices.Concat(whole, unknownField()), "in its PodState"},
		{"deep in the state", deep, "in its ContainerObservation"},
		{"no other field", whole, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory(t)
			m.records = []*journaletv1.Record{{Seq: 1, Actor: messages.Pod("p").Proto(),
				Body: &journaletv1.Record_Fact{Fact: observed("p")}}}
			m.barrier, m.snaps = 1, []*journaletv1.Snapshot{{Actor: messages.Pod("p").Proto(), Handled: 1, State: c.state}}
			recoverFails(t, m, c.want, "the snapshot of pod/p ")
		})
	}
}

// recoverFails recovers a journal and expects an error with these texts, or none.
func recoverFails(t *testing.T, m *memory, want, where string) {
	t.Helper()
	_, err := New(Options{Journal: m, Snapshots: m, Deciders: fold.AllDeciders, Effects: noEffects{}}).Recover()
	if want == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range []string{want, where, "newer", "--root-dir"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("no %q in: %v", text, err)
		}
	}
}
