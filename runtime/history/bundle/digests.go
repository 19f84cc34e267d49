package bundle

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
)

// digests finds the digests of manifests in messages: the strings of fields named digest, or ending in _digest. A
// digest in another field, such as a reference of an image, is of something else, and so is the digest of an object's
// contents.
type digests struct {
	// fields are the fields of a message that are digests or hold messages with digests.
	fields map[protoreflect.FullName][]protoreflect.FieldDescriptor
}

func newDigests() *digests {
	return &digests{fields: map[protoreflect.FullName][]protoreflect.FieldDescriptor{}}
}

func isDigest(fd protoreflect.FieldDescriptor) bool {
	name := string(fd.Name())
	if fd.Parent().FullName() == (&journaletv1.ObjectRead{}).ProtoReflect().Descriptor().FullName() {
		return false
	}
	return fd.Kind() == protoreflect.StringKind && !fd.IsMap() && (name == "digest" || strings.HasSuffix(name, "_digest"))
}

// fieldsOf returns the fields of a message that lead to digests.
func (d *digests) fieldsOf(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if known, ok := d.fields[md.FullName()]; ok {
		return known
	}
	d.fields[md.FullName()] = nil // ends a cycle
	var out []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		below := fd.Message()
		if fd.IsMap() {
			below = fd.MapValue().Message()
		}
		if isDigest(fd) || below != nil && len(d.fieldsOf(below)) > 0 {
			out = append(out, fd)
		}
	}
	d.fields[md.FullName()] = out
	return out
}

// each passes the digests in a message to f.
func (d *digests) each(m protoreflect.Message, f func(digest string)) {
	for _, fd := range d.fieldsOf(m.Descriptor()) {
		switch {
		case !m.Has(fd):
		case fd.IsMap():
			m.Get(fd).Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				d.each(v.Message(), f)
				return true
			})
		case fd.IsList():
			for list, i := m.Get(fd).List(), 0; i < list.Len(); i++ {
				if fd.Message() != nil {
					d.each(list.Get(i).Message(), f)
				} else {
					f(list.Get(i).String())
				}
			}
		case fd.Message() != nil:
			d.each(m.Get(fd).Message(), f)
		default:
			f(m.Get(fd).String())
		}
	}
}
