package replay

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
)

// slabBytes is the size of the pieces of memory that keep encoded records.
const slabBytes = 1 << 20

// slabs keep encoded records in few pieces of memory.
type slabs struct {
	bytes int
	slab  []byte
}

// keep returns a copy of an encoded record.
func (s *slabs) keep(b []byte) []byte {
	if len(s.slab)+len(b) > cap(s.slab) {
		s.slab = make([]byte, 0, max(slabBytes, len(b)))
	}
	at := len(s.slab)
	s.bytes += len(b)
	s.slab = append(s.slab, b...)
	return s.slab[at:len(s.slab):len(s.slab)]
}

// Search returns the next record after seq, or the previous one before it, that holds a text: in the name of an event,
// such as call_finished, or in any of its strings, such as a name, an image or a message. It returns 0 for none. Upper
// and lower case count.
func (s *Session) Search(text string, seq uint64, forward bool) uint64 {
	if text == "" {
		return 0
	}
	kinds := kindsThat(func(fd protoreflect.FieldDescriptor) bool { return strings.Contains(string(fd.Name()), text) })
	want := []byte(text)
	matches := func(b []byte) bool { return bytes.Contains(b, want) || len(kinds) > 0 && anyKind(b, kinds) }
	if forward {
		for i := s.position(seq + 1); i < len(s.records); i++ {
			if matches(s.records[i]) {
				return s.seqs[i]
			}
		}
		return 0
	}
	for i := s.position(seq) - 1; i >= 0; i-- {
		if matches(s.records[i]) {
			return s.seqs[i]
		}
	}
	return 0
}

// kindsThat returns the events that are wanted, by their fields' numbers.
func kindsThat(wanted func(protoreflect.FieldDescriptor) bool) map[protowire.Number]bool {
	kinds := map[protowire.Number]bool{}
	fields := (&journaletv1.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	for i := range fields.Len() {
		if wanted(fields.Get(i)) {
			kinds[fields.Get(i).Number()] = true
		}
	}
	return kinds
}

// anyKind reports whether a record holds an event of one of some kinds.
func anyKind(rec []byte, kinds map[protowire.Number]bool) bool {
	s := sieve{kinds: kinds}
	for len(rec) > 0 {
		num, typ, n := protowire.ConsumeTag(rec)
		if n < 0 {
			return false
		}
		rec = rec[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, rec); n < 0 {
				return false
			}
			rec = rec[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(rec)
		if n < 0 {
			return false
		}
		switch num {
		case factField:
			return s.event(v)
		case stepField:
			return s.decides(v)
		}
		rec = rec[n:]
	}
	return false
}
