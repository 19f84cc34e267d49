package why

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// head is the part of a record that selects it, read without decoding the rest. The field numbers are the contract's
// (record.proto).
type head struct {
	seq, epoch uint64
	author     messages.Ref
	step       bool
	// cause and offset are of a step.
	cause, offset uint64
}

// peek reads the head of an encoded record. A record that is not well formed yields what could be read.
func peek(b []byte) (h head) {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return h
		}
		b = b[n:]
		switch {
		case kind == protowire.VarintType && (num == 1 || num == 2):
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return h
			}
			if num == 1 {
				h.seq = v
			} else {
				h.epoch = v
			}
			b = b[n:]
		case kind == protowire.BytesType && (num == 4 || num == 7):
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return h
			}
			if num == 4 {
				h.author = peekActor(v)
			} else {
				h.step, h.cause, h.offset = true, peekVarint(v, 1), peekVarint(v, 4)
			}
			b = b[n:]
		default:
			if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
				return h
			}
			b = b[n:]
		}
	}
	return h
}

func peekActor(b []byte) (r messages.Ref) {
	r.Kind = journaletv1.ActorKind(peekVarint(b, 1))
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return r
		}
		b = b[n:]
		if num == 2 && kind == protowire.BytesType {
			if v, n := protowire.ConsumeBytes(b); n >= 0 {
				r.ID = string(v)
			}
			return r
		}
		if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
			return r
		}
		b = b[n:]
	}
	return r
}

// peekVarint returns the first varint of a field; 0 if the field is missing.
func peekVarint(b []byte, field protowire.Number) uint64 {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0
		}
		b = b[n:]
		if num == field && kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b)
			return v
		}
		if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
			return 0
		}
		b = b[n:]
	}
	return 0
}
