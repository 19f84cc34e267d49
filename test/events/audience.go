package events

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// receivers returns who receives an event, in words. It fills the event's fields with names that stand for themselves
// and asks messages.Audience.
func receivers(kind protoreflect.FieldDescriptor) string {
	var who []string
	requesters := []messages.Ref{messages.Pod("requester"), messages.Image}
	if kind.Message().Fields().ByName("requester") == nil {
		requesters = requesters[:1]
	}
	for _, requester := range requesters {
		e := &journaletv1.Event{}
		m := e.ProtoReflect().Mutable(kind).Message()
		for i := range m.Descriptor().Fields().Len() {
			f := m.Descriptor().Fields().Get(i)
			name := string(f.Name())
			switch {
			case name == "requester":
				m.Set(f, protoreflect.ValueOfString(requester.String()))
			case name == "pod" && f.Message() != nil:
				pod := m.Mutable(f).Message()
				pod.Set(pod.Descriptor().Fields().ByName("uid"), protoreflect.ValueOfString("uid"))
			case f.IsList() && f.Kind() == protoreflect.StringKind:
				m.Mutable(f).List().Append(protoreflect.ValueOfString(strings.TrimSuffix(name, "s")))
			case f.Kind() == protoreflect.StringKind && !f.IsMap():
				m.Set(f, protoreflect.ValueOfString(name))
			}
		}
		audience, everyone := messages.Audience(messages.Pod("author"), e)
		if everyone {
			return "every actor"
		}
		for _, ref := range audience {
			text := inWords(ref)
			if ref == requester {
				text = "the actor in `requester`"
			}
			if !slices.Contains(who, text) {
				who = append(who, text)
			}
		}
	}
	if len(who) == 0 {
		return "no actor: it is for drivers and observers"
	}
	return strings.Join(who, ", ")
}

// inWords names an actor whose id is the name of the field that it comes from.
func inWords(ref messages.Ref) string {
	switch ref {
	case messages.Pod("author"):
		return "the actor that it is about"
	case messages.Image:
		return "the images"
	case messages.Node:
		return "the node"
	case messages.Runtime:
		return "the dispatcher"
	case messages.Pod("uid"):
		return "the pod"
	case messages.Pod("victim"):
		return "the victims"
	case messages.Pod("pod"):
		return "the pods"
	}
	return "the " + ref.KindName() + " in `" + ref.ID + "`"
}
