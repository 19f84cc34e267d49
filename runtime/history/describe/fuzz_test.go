package describe

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
)

// maxSentence bounds the description of an event, in multiples of the record, and with room for what has no content.
const maxSentence = 8

// FuzzEvent decodes any bytes as a record, and describes its events in each way that observers and commands do.
func FuzzEvent(f *testing.F) {
	for i, kinds := 0, (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields(); i < kinds.Len(); i++ {
		e := &journaletv1.Event{}
		fill(e.ProtoReflect().Mutable(kinds.Get(i)).Message(), 4)
		rec := &journaletv1.Record{Seq: 7, Epoch: 1, Actor: messages.Pod("u").Proto(),
			Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: 6, Decisions: []*journaletv1.Event{e}}}}
		b, err := messages.Encode(rec)
		must.OK(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := messages.Decode(b)
		if err != nil {
			return
		}
		if _, err := messages.Encode(rec); err != nil {
			t.Errorf("a record that was decoded is not encoded: %v", err)
		}
		d := New()
		events, author := messages.Events(rec), messages.RefOf(rec.GetActor())
		for _, e := range events {
			audience, _ := messages.Audience(author, e)
			for _, ref := range audience {
				_ = d.Actor(ref)
			}
			_ = history.PodsOf(author, e)
			if s := d.Describe("1.2.pod/u.0", author, e); len(s) > 4096+maxSentence*len(b) {
				t.Errorf("%d bytes are described by %d", len(b), len(s))
			}
		}
		render := NewRenderer(New(), nil)
		for _, flat := range messages.Flatten("n", rec) {
			if !json.Valid(flat.Data) {
				t.Errorf("data of %s is no JSON: %q", flat.Event, flat.Data)
			}
			if _, err := history.Event(&flat); err != nil {
				t.Errorf("%s does not decode again: %v", flat.Event, err)
			}
			_ = render.Render(t.Context(), flat)
		}
		_ = d.Cause("n", messages.Pod("u"), rec)
		p := NewPodEvents(messages.Pod("u"))
		for _, e := range events {
			p.Add(rec, "1.2.pod/u.0", e)
		}
		_ = p.List()
	})
}

// fill sets every field of a message.
func fill(m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		switch {
		case depth == 0 || fd.IsMap():
		case fd.IsList() && fd.Message() != nil:
			fill(m.Mutable(fd).List().AppendMutable().Message(), depth-1)
		case fd.IsList():
			if fd.Kind() == protoreflect.StringKind {
				m.Mutable(fd).List().Append(protoreflect.ValueOfString("u"))
			}
		case fd.Message() != nil:
			fill(m.Mutable(fd).Message(), depth-1)
		case fd.Kind() == protoreflect.StringKind:
			m.Set(fd, protoreflect.ValueOfString("u"))
		case fd.Kind() == protoreflect.EnumKind:
			m.Set(fd, protoreflect.ValueOfEnum(1))
		case fd.Kind() == protoreflect.BoolKind:
			m.Set(fd, protoreflect.ValueOfBool(true))
		}
	}
}
