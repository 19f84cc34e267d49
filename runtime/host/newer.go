package host

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// newerError refuses what a newer version left in a journal of a format that this one reads. To pass over it would be to
// act on half of what was learnt and decided. A new field of an event is none of this: where leaving it out changes what
// an event means, the format goes up.
func newerError(what string) error {
	return fmt.Errorf("%s, and this version does not know it: a newer one wrote it, and to leave it out could harm pods. "+
		"No pod was touched. Run the version that wrote it, or a newer one; to go on with this one all the same, move the "+
		"folder bus out of --root-dir: running pods are taken over as they are, and a new journal begins", what)
}

// known refuses a record that holds more than this version can fold.
func known(rec *journaletv1.Record) error {
	if rec.GetBody() == nil {
		return newerError(fmt.Sprintf("record %d of the journal is neither a fact nor a step", rec.GetSeq()))
	}
	if author := messages.RefOf(rec.GetActor()); author.KindName() == "unknown" {
		return newerError(fmt.Sprintf("record %d of the journal is of an actor of kind %d", rec.GetSeq(), author.Kind))
	}
	for _, e := range messages.Events(rec) {
		if messages.EventName(e) == "" {
			return newerError(fmt.Sprintf("record %d of the journal, of %s, holds an event of another kind", rec.GetSeq(), messages.RefOf(rec.GetActor())))
		}
		if call := e.GetCallRequested(); call != nil && call.GetWork() == nil {
			return newerError(fmt.Sprintf("record %d of the journal, of %s, asks for a call of another kind", rec.GetSeq(), messages.RefOf(rec.GetActor())))
		}
	}
	return nil
}

// knownState refuses a snapshot that holds more than this version can keep: the records that it was folded from may be
// of kinds that known would refuse, and are not read again.
func knownState(s *journaletv1.Snapshot, state protoreflect.Message) error {
	if name := unknownIn(state); name != "" {
		return newerError(fmt.Sprintf("the snapshot of %s has another field in its %s", messages.RefOf(s.GetActor()), name))
	}
	return nil
}

// unknownIn names a message in m, or m itself, that has a field without a name; "" for none.
func unknownIn(m protoreflect.Message) (name protoreflect.Name) {
	if len(m.GetUnknown()) > 0 {
		return m.Descriptor().Name()
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					name = unknownIn(v.Message())
					return name == ""
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := 0; i < v.List().Len() && name == ""; i++ {
				name = unknownIn(v.List().Get(i).Message())
			}
		default:
			name = unknownIn(v.Message())
		}
		return name == ""
	})
	return name
}
