package messages

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
)

// fields are those of a oneof, by the name of their message; each message stands for one field.
type fields map[protoreflect.FullName]protoreflect.FieldDescriptor

// They are built when they are first needed: that decodes the contract, which few commands of the program need.
var (
	kinds = sync.OnceValue(func() fields { return fieldsOf((*journaletv1.Event)(nil), "kind") })
	works = sync.OnceValue(func() fields { return fieldsOf((*journaletv1.CallRequested)(nil), "work") })
)

// NewEvent returns the event of this kind, such as *journaletv1.PodFinished. It panics for a message that is no kind.
func NewEvent(kind proto.Message) *journaletv1.Event {
	e := new(journaletv1.Event)
	set(e, kinds(), kind)
	return e
}

// NewCall returns the request of this work, such as *journaletv1.RunSandbox. It panics for a message that is no work.
func NewCall(work proto.Message) *journaletv1.CallRequested {
	c := new(journaletv1.CallRequested)
	set(c, works(), work)
	return c
}

func fieldsOf(m proto.Message, oneof protoreflect.Name) fields {
	all := m.ProtoReflect().Descriptor().Oneofs().ByName(oneof).Fields()
	byMessage := make(fields, all.Len())
	for i := range all.Len() {
		byMessage[all.Get(i).Message().FullName()] = all.Get(i)
	}
	return byMessage
}

func set(in proto.Message, by fields, value proto.Message) {
	m := value.ProtoReflect()
	field := by[m.Descriptor().FullName()]
	if field == nil {
		panic(fmt.Sprintf("messages: %T holds no %T", in, value))
	}
	in.ProtoReflect().Set(field, protoreflect.ValueOfMessage(m))
}
