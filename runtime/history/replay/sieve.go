package replay

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// sieve reports from the bytes of a record whether it may concern an actor, without decoding it. It passes too many
// rather than too few.
type sieve struct {
	ref messages.Ref
	id  []byte
	// kinds are the events, by their fields' numbers, that actors of this kind receive.
	kinds map[protowire.Number]bool
}

// Numbers of the fields of Record, Step and Actor that a sieve reads.
const (
	actorField, factField, stepField      = 4, 6, 7
	decisionField, offsetField, moreField = 3, 4, 5
	kindField, idField                    = 1, 2
)

func newSieve(ref messages.Ref) *sieve {
	kinds := kindsThat(func(fd protoreflect.FieldDescriptor) bool { return receives(ref, fd) })
	return &sieve{ref: ref, id: []byte(ref.ID), kinds: kinds}
}

// receives reports whether messages.Audience can name an actor of ref's kind for an event of this kind.
func receives(ref messages.Ref, fd protoreflect.FieldDescriptor) bool {
	e := new(journaletv1.Event)
	m := e.ProtoReflect().Mutable(fd).Message()
	if to := m.Descriptor().Fields().ByName("requester"); to != nil {
		m.Set(to, protoreflect.ValueOfString(ref.String()))
	}
	audience, everyone := messages.Audience(messages.Agent, e)
	for _, to := range audience {
		everyone = everyone || to.Kind == ref.Kind
	}
	// These no actor receives, but the fold.
	return everyone || e.GetQuarantined() != nil || e.GetQuarantineLifted() != nil || e.GetPodForgotten() != nil
}

// concerns reports whether a record may concern the actor. Of a record that cannot be read it reports true, so that its
// decoding fails.
func (s *sieve) concerns(rec []byte) bool {
	var body []byte
	step := false
	for len(rec) > 0 {
		num, typ, n := protowire.ConsumeTag(rec)
		if n < 0 {
			return true
		}
		rec = rec[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, rec); n < 0 {
				return true
			}
			rec = rec[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(rec)
		if n < 0 {
			return true
		}
		rec = rec[n:]
		switch num {
		case actorField:
			if s.author(v) {
				return true
			}
		case factField, stepField:
			body, step = v, num == stepField
		}
	}
	// A pod is named by its UID, wherever it is.
	if s.ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD && !bytes.Contains(body, s.id) {
		return step && inParts(body)
	}
	if !step {
		return s.event(body)
	}
	return s.step(body)
}

// author reports whether a record is by the agent, whose facts concern everyone, or by the actor itself.
func (s *sieve) author(actor []byte) bool {
	var kind uint64
	id := s.id[:0:0]
	for len(actor) > 0 {
		num, typ, n := protowire.ConsumeTag(actor)
		if n < 0 {
			return true
		}
		actor = actor[n:]
		switch {
		case num == kindField && typ == protowire.VarintType:
			kind, n = protowire.ConsumeVarint(actor)
		case num == idField && typ == protowire.BytesType:
			id, n = protowire.ConsumeBytes(actor)
		default:
			n = protowire.ConsumeFieldValue(num, typ, actor)
		}
		if n < 0 {
			return true
		}
		actor = actor[n:]
	}
	actorKind := journaletv1.ActorKind(kind)
	return actorKind == journaletv1.ActorKind_ACTOR_KIND_AGENT || actorKind == s.ref.Kind && bytes.Equal(id, s.id)
}

// event reports whether an event's kind may concern the actor.
func (s *sieve) event(e []byte) bool {
	num, _, n := protowire.ConsumeTag(e)
	return n < 0 || s.kinds[num]
}

// step reports whether a decision of a step may concern the actor, or the step is one of several parts.
func (s *sieve) step(b []byte) bool { return s.decides(b) || inParts(b) }

// decides reports whether a step has a decision of one of the kinds.
func (s *sieve) decides(b []byte) bool {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return true
		}
		b = b[n:]
		if num != decisionField || typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return true
			}
			b = b[n:]
			continue
		}
		e, n := protowire.ConsumeBytes(b)
		if n < 0 || s.event(e) {
			return true
		}
		b = b[n:]
	}
	return false
}

// inParts reports whether a step is one of several parts, which are joined before they are folded.
func inParts(b []byte) bool {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || num == offsetField || num == moreField {
			return true
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return true
		}
		b = b[n:]
	}
	return false
}
