package bundle

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
)

// leaves returns the fields of a record, down to fields that hold no message, as message.field.
func leaves() map[string]protoreflect.FieldDescriptor {
	out, seen := map[string]protoreflect.FieldDescriptor{}, map[protoreflect.FullName]bool{}
	var walk func(md protoreflect.MessageDescriptor)
	walk = func(md protoreflect.MessageDescriptor) {
		if seen[md.FullName()] {
			return
		}
		seen[md.FullName()] = true
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if fd.IsMap() || fd.Message() == nil {
				out[string(md.Name())+"."+string(fd.Name())] = fd
			}
			if fd.IsMap() && fd.MapValue().Message() != nil {
				walk(fd.MapValue().Message())
			} else if !fd.IsMap() && fd.Message() != nil {
				walk(fd.Message())
			}
		}
	}
	walk((&journaletv1.Record{}).ProtoReflect().Descriptor())
	return out
}

func TestEachFieldOfTheContractIsListed(t *testing.T) {
	there := leaves()
	for name, fd := range there {
		a, listed := actions()[name]
		if !listed {
			t.Errorf("%s is not in redact_fields.go: decide what becomes of it in a redacted bundle", name)
		}
		text := fd.Kind() == protoreflect.StringKind || fd.Kind() == protoreflect.BytesKind || fd.IsMap()
		if text && a == keep {
			t.Errorf("%s is kept, and it is text", name)
		}
	}
	n := 0
	for a, names := range fields {
		for _, name := range names {
			if n++; there[name] == nil {
				t.Errorf("action %d names %s, which is no field", a, name)
			}
		}
	}
	if n != len(actions()) {
		t.Error("a field is listed twice")
	}
}

// canary is text that no redacted bundle holds, wherever it was.
const canary = "Canary"

// filled returns a record with every field of an event set, text to canaries of their own.
func filled(kind protoreflect.FieldDescriptor, seq uint64, n *int) *journaletv1.Record {
	e := &journaletv1.Event{}
	fill(e.ProtoReflect().Mutable(kind).Message(), n, 0)
	actor := messages.Pod(canary + "-author").Proto()
	rec := &journaletv1.Record{Seq: seq, Epoch: 1, Time: timestamppb.New(now), Actor: actor,
		PreviousHash: []byte(canary), Body: &journaletv1.Record_Fact{Fact: e}}
	if seq%2 == 0 {
		rec.Body = &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: seq - 1, Decisions: []*journaletv1.Event{e}}}
	}
	return rec
}

func fill(m protoreflect.Message, n *int, depth int) {
	value := func(fd protoreflect.FieldDescriptor) protoreflect.Value {
		*n++
		switch fd.Kind() {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(text(fd, *n))
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte(canary))
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(1)
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(7)
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(7)
		case protoreflect.Uint64Kind:
			return protoreflect.ValueOfUint64(7)
		}
		return protoreflect.ValueOfInt64(7)
	}
	for i := range m.Descriptor().Fields().Len() {
		switch fd := m.Descriptor().Fields().Get(i); {
		case depth > 5:
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v := m.Mutable(fd).Map().NewValue()
			fill(v.Message(), n, depth+1)
			m.Mutable(fd).Map().Set(value(fd.MapKey()).MapKey(), v)
		case fd.IsMap():
			m.Mutable(fd).Map().Set(value(fd.MapKey()).MapKey(), value(fd.MapValue()))
		case fd.IsList() && fd.Message() != nil:
			v := m.Mutable(fd).List().NewElement()
			fill(v.Message(), n, depth+1)
			m.Mutable(fd).List().Append(v)
		case fd.IsList():
			m.Mutable(fd).List().Append(value(fd))
		case fd.Message() != nil:
			fill(m.Mutable(fd).Message(), n, depth+1)
		default:
			m.Set(fd, value(fd))
		}
	}
}

// text returns a canary in the form of its field.
func text(fd protoreflect.FieldDescriptor, n int) string {
	c := canary + strings.Repeat("x", n%7)
	switch fd.Name() {
	case "intent_id":
		return messages.DecisionID(1, 2, messages.Pod(c), 0)
	case "requester":
		return "source/" + c
	case "full_name":
		return c + "/" + c
	case "kind":
		return "pod"
	case "name":
		return []string{c, "start " + c, "active deadline " + c, c + " " + c, "grace " + c}[n%5]
	case "reason":
		return []string{c, "Container " + c + " failed liveness probe", "Error: " + c, "pod removed " + c}[n%4]
	case "version", "runtime_version":
		return "v1.2.3-" + c
	}
	return c
}

func TestNoTextOfAUserIsInARedactedBundle(t *testing.T) {
	m := &history.Memory{Name: canary, Manifests: map[string][]byte{}}
	manifest := []byte(canary)
	m.Manifests[digestOf(manifest)] = manifest
	n, kinds := 0, (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	for i := range kinds.Len() {
		for range 5 { // for each form of a text
			rec := filled(kinds.Get(i), uint64(len(m.Records))+1, &n)
			if call := rec.GetFact().GetCallRequested(); call != nil {
				call.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 999, 2), canary))
			}
			m.Records = append(m.Records, rec)
			n++
		}
	}
	works := (&journaletv1.CallRequested{}).ProtoReflect().Descriptor().Oneofs().ByName("work").Fields()
	for i := range works.Len() { // fill leaves the last one of a oneof
		call := &journaletv1.CallRequested{PodUid: canary}
		fill(call.ProtoReflect().Mutable(works.Get(i)).Message(), &n, 0)
		m.Records = append(m.Records, &journaletv1.Record{Seq: uint64(len(m.Records)) + 1,
			Actor: messages.Pod(canary).Proto(), Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(call)}})
	}
	var out bytes.Buffer
	_, err := Export(t.Context(), m, &out, Options{Redact: true, Version: "v1.2.3-" + canary, Now: now})
	must.OK(t, err)
	d, err := newDecoder(nil)
	must.OK(t, err)
	raw, err := d.zst.DecodeAll(out.Bytes(), make([]byte, 0, 8<<20))
	must.OK(t, err)
	all := &journaletv1.Bundle{}
	must.OK(t, proto.Unmarshal(raw, all))
	if len(all.GetRecords()) != len(m.Records) || len(all.GetManifests()) > 0 || len(all.GetSnapshots()) > 0 ||
		!all.GetHeader().GetRedacted() {
		t.Errorf("%d records, %d manifests, %d snapshots", len(all.GetRecords()), len(all.GetManifests()),
			len(all.GetSnapshots()))
	}
	for _, rec := range all.GetRecords() {
		if strings.Contains(rec.String(), canary) {
			t.Errorf("record %d: %v", rec.GetSeq(), rec)
		}
	}
	if bytes.Contains(raw, []byte(canary)) {
		t.Error("text of a user is in the bundle")
	}
}

func TestARedactedJournalReadsAsBefore(t *testing.T) {
	for _, seed := range seeds {
		m := simulated(seed)
		var before []*journaletv1.Record
		for _, rec := range m.Records {
			before = append(before, proto.CloneOf(rec))
		}
		r, res := exported(t, m, Options{Redact: true})
		if res.Header.GetNode() != "node-1" || len(res.Index.GetMissingManifests()) > 0 || !r.Redacted() {
			t.Errorf("%v, %v", res.Header, res.Index.GetMissingManifests())
		}
		i, hash := 0, []byte(nil)
		uids := map[string]string{}
		must.OK(t, r.Read(t.Context(), 0, 0, func(e history.Entry) error {
			rec, err := e.Record()
			must.OK(t, err)
			was := before[i]
			i++
			if !bytes.Equal(rec.GetPreviousHash(), hash) {
				t.Fatalf("record %d does not continue the bundle's hash chain", e.Seq)
			}
			hash = messages.Hash(e.Bytes)
			if !proto.Equal(rec.GetTime(), was.GetTime()) || rec.GetStep().GetCause() != was.GetStep().GetCause() ||
				len(messages.Events(rec)) != len(messages.Events(was)) {
				t.Fatalf("record %d was %v, and is %v", e.Seq, was, rec)
			}
			author, authorWas := messages.RefOf(rec.GetActor()), messages.RefOf(was.GetActor())
			for n, e := range messages.Events(rec) {
				sameAudience(t, uids, author, authorWas, e, messages.Events(was)[n])
			}
			return nil
		}))
		for n, rec := range m.Records { // the journal's own records are not touched
			if !proto.Equal(rec, before[n]) {
				t.Fatalf("record %d was changed in the journal", n+1)
			}
		}
	}
}

// sameAudience fails unless the same actors receive an event, by their pseudonyms, and its reasons are kept.
func sameAudience(t *testing.T, uids map[string]string, author, authorWas messages.Ref, e, was *journaletv1.Event) {
	t.Helper()
	got, _ := messages.Audience(author, e)
	want, _ := messages.Audience(authorWas, was)
	if messages.EventName(e) != messages.EventName(was) || len(got) != len(want) {
		t.Fatalf("%v goes to %v, and went to %v", e, got, want)
	}
	for i := range got {
		if p, ok := uids[want[i].String()]; ok && p != got[i].String() || got[i].Kind != want[i].Kind {
			t.Errorf("%s is %s, and was %s before", want[i], got[i], p)
		}
		uids[want[i].String()] = got[i].String()
	}
	if got, want := reasonsIn(e), reasonsIn(was); len(got) != len(want) {
		t.Errorf("reasons %q, before %q: add those that are the agent's own to redact_words.go", got, want)
	}
	if was.GetTimerSet() != nil && !strings.Contains(was.GetTimerSet().GetName(), ":") &&
		strings.Fields(e.GetTimerSet().GetName())[0] != strings.Fields(was.GetTimerSet().GetName())[0] {
		t.Errorf("timer %q, before %q", e.GetTimerSet().GetName(), was.GetTimerSet().GetName())
	}
}

// reasonsIn returns the reasons in a message.
func reasonsIn(m proto.Message) (out []string) {
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case fd.IsMap() && fd.MapValue().Message() != nil:
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					walk(v.Message())
					return true
				})
			case fd.IsMap():
			case fd.IsList() && fd.Message() != nil:
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			case !fd.IsList() && fd.Message() != nil:
				walk(v.Message())
			case slices.Contains(fields[vocabulary], string(m.Descriptor().Name())+"."+string(fd.Name())):
				if s := v.String(); s != "world" && s != "restart" { // the simulation's own
					out = append(out, s)
				}
			}
			return true
		})
	}
	walk(m.ProtoReflect())
	return out
}
