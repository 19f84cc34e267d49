package replay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/plain"
)

const (
	// maxFields bounds the fields in one difference, maxValueBytes the text of one value.
	maxFields     = 200
	maxValueBytes = 512
)

// None is the text of a field that is not set.
const None = "none"

// Field is a field of a message that has two values.
type Field struct {
	// Path is its path in the contract's names: call_requested.start_container.attempt, containers[web].hash.
	Path string `json:"path"`
	// From and To are the values as text, None for a field that is not set: of a divergence, what is recorded and what is
	// decided now; of two states, the earlier and the later one.
	From string `json:"from"`
	To   string `json:"to"`
}

// String returns the field as a divergence: "attempt: 1 recorded, 2 now".
func (f Field) String() string { return fmt.Sprintf("%s: %s recorded, %s now", f.Path, f.From, f.To) }

// Differences returns the fields that differ between two messages of one type, in the order of the contract, at most
// maxFields.
func Differences(from, to proto.Message) []Field {
	d := &differ{}
	d.message("", from.ProtoReflect(), to.ProtoReflect())
	return d.fields
}

type differ struct{ fields []Field }

func (d *differ) add(path, from, to string) {
	if len(d.fields) < maxFields {
		d.fields = append(d.fields, Field{path, from, to})
	}
}

// message compares two messages field by field. Their type is the same.
func (d *differ) message(path string, a, b protoreflect.Message) {
	if len(d.fields) >= maxFields || proto.Equal(a.Interface(), b.Interface()) {
		return
	}
	if text := scalarMessage(a); text != "" {
		d.add(path, text, scalarMessage(b))
		return
	}
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !a.Has(fd) && !b.Has(fd) {
			continue
		}
		at := string(fd.Name())
		if path != "" {
			at = path + "." + at
		}
		switch {
		case fd.IsList():
			d.list(at, fd, a.Get(fd).List(), b.Get(fd).List())
		case fd.IsMap():
			d.maps(at, fd, a.Get(fd).Map(), b.Get(fd).Map())
		case fd.Message() != nil && a.Has(fd) && b.Has(fd):
			d.message(at, a.Get(fd).Message(), b.Get(fd).Message())
		case fd.Message() != nil || !a.Get(fd).Equal(b.Get(fd)):
			d.add(at, valueOf(fd, a), valueOf(fd, b))
		}
	}
	if string(a.GetUnknown()) != string(b.GetUnknown()) {
		d.add(strings.TrimPrefix(path+".(unknown fields)", "."), hex.EncodeToString(a.GetUnknown()),
			hex.EncodeToString(b.GetUnknown()))
	}
}

// valueOf returns a field's value as text, None if it is a message that is not set.
func valueOf(fd protoreflect.FieldDescriptor, m protoreflect.Message) string {
	if fd.HasPresence() && !m.Has(fd) {
		return None
	}
	return text(fd, m.Get(fd))
}

// list compares two lists: by the name or id of their elements if these have one, by index otherwise.
func (d *differ) list(path string, fd protoreflect.FieldDescriptor, a, b protoreflect.List) {
	keysA, keysB := keysOf(fd, a), keysOf(fd, b)
	at := map[string]int{}
	for i, key := range keysB {
		at[key] = i
	}
	for i, key := range keysA {
		j, ok := at[key]
		delete(at, key)
		d.element(path+"["+key+"]", fd, a.Get(i), element(b, j, ok))
	}
	for j, key := range keysB {
		if _, left := at[key]; left {
			d.element(path+"["+key+"]", fd, protoreflect.Value{}, b.Get(j))
		}
	}
}

func element(l protoreflect.List, i int, ok bool) protoreflect.Value {
	if !ok {
		return protoreflect.Value{}
	}
	return l.Get(i)
}

// keysOf returns the distinct keys of a list's elements: a string field that names each, or their indices.
func keysOf(fd protoreflect.FieldDescriptor, l protoreflect.List) []string {
	keys := make([]string, l.Len())
	if fd.Message() != nil {
		for _, name := range []protoreflect.Name{"id", "uid", "path", "name"} {
			key := fd.Message().Fields().ByName(name)
			if key == nil || key.Kind() != protoreflect.StringKind || key.IsList() {
				continue
			}
			for i := range keys {
				keys[i] = l.Get(i).Message().Get(key).String()
			}
			if distinct := slices.Compact(slices.Sorted(slices.Values(keys))); len(distinct) == len(keys) {
				return keys
			}
		}
	}
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	return keys
}

// maps compares two maps by their sorted keys.
func (d *differ) maps(path string, fd protoreflect.FieldDescriptor, a, b protoreflect.Map) {
	keys := map[string]protoreflect.MapKey{}
	collect := func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys[k.String()] = k
		return true
	}
	a.Range(collect)
	b.Range(collect)
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		d.element(path+"["+name+"]", fd.MapValue(), a.Get(keys[name]), b.Get(keys[name]))
	}
}

// element compares two elements of a list or a map; an invalid value means that the element is missing.
func (d *differ) element(path string, fd protoreflect.FieldDescriptor, a, b protoreflect.Value) {
	switch {
	case !a.IsValid() || !b.IsValid():
		d.add(path, text(fd, a), text(fd, b))
	case fd.Message() != nil:
		d.message(path, a.Message(), b.Message())
	case !a.Equal(b):
		d.add(path, text(fd, a), text(fd, b))
	}
}

// text returns a single value as text of at most maxValueBytes.
func text(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	var s string
	switch {
	case !v.IsValid():
		return None
	case fd.Message() != nil:
		s = messageText(v.Message())
	case fd.Kind() == protoreflect.StringKind:
		s = strconv.Quote(v.String())
	case fd.Kind() == protoreflect.BytesKind:
		s = hex.EncodeToString(v.Bytes())
	case fd.Kind() == protoreflect.EnumKind:
		s = strconv.Itoa(int(v.Enum()))
		if e := fd.Enum().Values().ByNumber(v.Enum()); e != nil {
			s = string(e.Name())
		}
	default:
		s = v.String()
	}
	if len(s) > maxValueBytes {
		s = plain.Cut(s, maxValueBytes) + "..."
	}
	return s
}

// messageText returns a message as one line of JSON.
func messageText(m protoreflect.Message) string {
	if s := scalarMessage(m); s != "" {
		return s
	}
	b, err := protojson.Marshal(m.Interface())
	if err != nil {
		return "(" + err.Error() + ")"
	}
	var out bytes.Buffer // compacted: protojson varies its spaces on purpose
	if json.Compact(&out, b) != nil {
		return string(b)
	}
	return out.String()
}

// scalarMessage returns a time or a duration as text, "" for any other message.
func scalarMessage(m protoreflect.Message) string {
	switch k := m.Interface().(type) {
	case *timestamppb.Timestamp:
		return k.AsTime().Format(time.RFC3339Nano)
	case *durationpb.Duration:
		return k.AsDuration().String()
	}
	return ""
}
