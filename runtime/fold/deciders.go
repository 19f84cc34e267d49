package fold

import (
	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// AllDeciders creates the agent's deciders.
func AllDeciders(ref messages.Ref) actors.Decider {
	switch ref.Kind {
	case journaletv1.ActorKind_ACTOR_KIND_SOURCE:
		return source.New(ref.ID)
	case journaletv1.ActorKind_ACTOR_KIND_POD:
		return pod.New(ref.ID)
	case journaletv1.ActorKind_ACTOR_KIND_RUNTIME:
		return dispatch.New()
	case journaletv1.ActorKind_ACTOR_KIND_NODE:
		return node.New()
	case journaletv1.ActorKind_ACTOR_KIND_IMAGE:
		return image.New()
	}
	return nil
}
