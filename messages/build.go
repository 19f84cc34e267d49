package messages

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
)

var (
	kinds = fieldsByMessage((*journaletv1.Event)(nil), "kind")
	works = fieldsByMessage((*journaletv1.CallRequested)(nil), "work")
)

// NewEvent returns the event of this kind, such as *journaletv1.PodFinished. It panics for a message that is no kind.
func NewEvent(kind proto.Message) *journaletv1.Event {
	e := new(journaletv1.Event)
	set(e, kinds, kind)
	return e
}

// NewCall returns the request of this work, such as *journaletv1.RunSandbox. It panics for a message that is no work.
func NewCall(work proto.Message) *journaletv1.CallRequested {
	c := new(journaletv1.CallRequested)
	set(c, works, work)
	return c
}

// fieldsByMessage returns the fields of a oneof by the name of their message; each message stands for one field.
func fieldsByMessage(m proto.Message, oneof protoreflect.Name) map[protoreflect.FullName]protoreflect.FieldDescriptor {
	fields := m.ProtoReflect().Descriptor().Oneofs().ByName(oneof).Fields()
	byMessage := make(map[protoreflect.FullName]protoreflect.FieldDescriptor, fields.Len())
	for i := range fields.Len() {
		byMessage[fields.Get(i).Message().FullName()] = fields.Get(i)
	}
	return byMessage
}

func set(in proto.Message, fields map[protoreflect.FullName]protoreflect.FieldDescriptor, value proto.Message) {
	m := value.ProtoReflect()
	field := fields[m.Descriptor().FullName()]
	if field == nil {
		panic(fmt.Sprintf("messages: %T holds no %T", in, value))
	}
	in.ProtoReflect().Set(field, protoreflect.ValueOfMessage(m))
}
