package fold

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// newerError is the error for data of a newer version in a journal of a known format. To skip it would mean to act on a
// part of the facts and decisions. A new field of an event is no such data: if it changes the meaning of an event, the
// format number changes.
func newerError(what string) error {
	return fmt.Errorf("%s that this version does not know: a newer version wrote it, and to skip it could harm pods. "+
		"No pod was touched. Run that version or a newer one; to use this version nevertheless, move the directory bus "+
		"out of --root-dir: running pods are adopted as they are, with a new journal", what)
}

// CheckRecord returns an error for a record that this version cannot fold.
func CheckRecord(rec *journaletv1.Record) error {
	if rec.GetBody() == nil {
		return newerError(fmt.Sprintf("record %d of the journal has a body, neither fact nor step,", rec.GetSeq()))
	}
	author := messages.RefOf(rec.GetActor())
	if author.KindName() == "unknown" {
		return newerError(fmt.Sprintf("record %d of the journal has an actor of kind %d", rec.GetSeq(), author.Kind))
	}
	for _, e := range messages.Events(rec) {
		if messages.EventName(e) == "" {
			return newerError(fmt.Sprintf("record %d of the journal, by %s, has an event", rec.GetSeq(), author))
		}
		if call := e.GetCallRequested(); call != nil && call.GetWork() == nil {
			return newerError(fmt.Sprintf("record %d of the journal, by %s, requests a call", rec.GetSeq(), author))
		}
	}
	return nil
}

// checkSnapshot returns an error for a snapshot with fields that this version does not know. The records behind it may
// have events that checkRecord rejects, and are not read again.
func checkSnapshot(s *journaletv1.Snapshot, state protoreflect.Message) error {
	if name := unknownIn(state); name != "" {
		return newerError(fmt.Sprintf("the snapshot of %s has a field in its %s", messages.RefOf(s.GetActor()), name))
	}
	return nil
}

// unknownIn returns the name of a message in m, or of m itself, that has an unknown field; "" for none.
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
