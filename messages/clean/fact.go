package clean

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
)

const (
	// maxFactBytes bounds an encoded fact. The rest of its record, with time, actor and hash, has some 200 bytes.
	maxFactBytes = messages.MaxRecordBytes - 4<<10
	// sumBytes is the sum of a fact's strings from which its size is computed: with numbers and names of fields a fact of
	// fewer is within maxFactBytes.
	sumBytes = maxFactBytes / 16
	// leastTextBytes is what is left of each text in a fact that is too large.
	leastTextBytes = 64
)

// Fact returns a fact whose strings are what their fields declare (fields.go): e itself if they are, otherwise a copy.
// It changes nothing of e, of which a driver may keep parts. Texts of a fact that is larger than a record may be are
// cut further, the longest first. What is too large without its texts stays so, and the journal refuses it: to leave
// out names would change what the fact says. Fact of what it returned returns the same.
func Fact(e *journaletv1.Event) *journaletv1.Event {
	kind := messages.EventField(e)
	if kind == nil {
		return e // the journal refuses it
	}
	p := plans()[kind.Message().FullName()]
	body := func(e *journaletv1.Event) protoreflect.Message { return e.ProtoReflect().Get(kind).Message() }
	see := pass{texts: maxFactBytes}
	if p == nil || see.message(p, body(e)) && (see.sum < sumBytes || proto.Size(e) <= maxFactBytes) {
		return e
	}
	e = proto.CloneOf(e)
	for texts := maxFactBytes; ; texts = min(texts, 2*maxTextBytes) / 2 {
		change := pass{texts: texts, write: true}
		change.message(p, body(e))
		if proto.Size(e) <= maxFactBytes || texts <= leastTextBytes {
			return e
		}
	}
}

// Text returns a text as a field for people of at most so many bytes would hold it.
func Text(s string, most int) string { return rule{text, most}.clean(s) }

// pass is one walk over an event: to see whether anything is to be changed, or to change it.
type pass struct {
	texts int // bound of each text, below its field's own
	write bool
	sum   int // bytes of the strings that were seen
	// withhold changes what containers and plugins say, and nothing else: see Withheld.
	withhold bool
}

// message walks over a message. It returns false, at once unless it writes, if anything in it is not as declared.
func (w *pass) message(p *plan, m protoreflect.Message) bool {
	fine := true
	for i := range p.fields {
		f := &p.fields[i]
		if !m.Has(f.fd) {
			continue
		}
		if !w.field(f, m) {
			if !w.write {
				return false
			}
			fine = false
		}
	}
	return fine
}

func (w *pass) field(f *field, m protoreflect.Message) bool {
	switch v := m.Get(f.fd); {
	case f.isMap:
		return w.entries(f, m, v.Map())
	case f.isList:
		fine, l := true, v.List()
		for i := range l.Len() {
			fine = w.element(f, m, l, i) && fine
			if !fine && !w.write {
				return false
			}
		}
		return fine
	case f.plan != nil:
		return w.message(f.plan, v.Message())
	default:
		s := v.String()
		c := w.clean(f, s)
		if c != s && w.write {
			m.Set(f.fd, protoreflect.ValueOfString(c))
		}
		return c == s
	}
}

func (w *pass) element(f *field, m protoreflect.Message, l protoreflect.List, i int) bool {
	if f.plan != nil {
		return w.message(f.plan, l.Get(i).Message())
	}
	s := l.Get(i).String()
	c := w.clean(f, s)
	if c != s && w.write {
		m.Mutable(f.fd).List().Set(i, protoreflect.ValueOfString(c))
	}
	return c == s
}

// entries walks over a map by name. Keys that differ stay different: a name that is changed gets a sum.
func (w *pass) entries(f *field, m protoreflect.Message, all protoreflect.Map) bool {
	var names []string
	all.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		names = append(names, k.String())
		return true
	})
	slices.Sort(names)
	fine := true
	for _, key := range names {
		k := protoreflect.ValueOfString(key).MapKey()
		v := all.Get(k)
		name := w.clean(&keys, key)
		same, to := name == key, v
		if f.plan != nil {
			same = w.message(f.plan, v.Message()) && same
		} else if f.fd.MapValue().Kind() == protoreflect.StringKind {
			c := w.clean(f, v.String())
			same, to = same && c == v.String(), protoreflect.ValueOfString(c)
		}
		if same {
			continue
		}
		if fine = false; !w.write {
			return false
		}
		all := m.Mutable(f.fd).Map()
		all.Clear(k)
		all.Set(protoreflect.ValueOfString(name).MapKey(), to)
	}
	return fine
}

// keys are the keys of all maps.
var keys = field{rule: rule{name, maxStoredNameBytes}}

func (w *pass) clean(f *field, s string) string {
	if w.withhold {
		if f.said && s != "" {
			return Mark
		}
		return s
	}
	w.sum += len(s)
	r := f.rule
	if r.class == text || r.class == words {
		r.most = min(r.most, w.texts)
	}
	return r.clean(s)
}

// rule is what a string has to be.
type rule struct {
	class class
	most  int // bytes
}

// cutMark ends a text that was cut.
const cutMark = "..."

// clean returns s if it is as the rule says, otherwise what becomes of it.
func (r rule) clean(s string) string {
	switch r.class {
	case name:
		if len(s) <= r.most && utf8.ValidString(s) {
			return s
		}
		sum := sha256.Sum256([]byte(s))
		mark := "~" + hex.EncodeToString(sum[:8])
		return plain.Cut(s, r.most-len(mark)) + mark
	case text:
		if len(s) <= r.most && plain.Shown(s, true) {
			return s
		}
		shown := plain.Quote(s[:min(len(s), r.most+1)], true)
		if len(shown) <= r.most {
			return shown
		}
		return plain.Cut(shown, r.most-len(cutMark)) + cutMark
	case words:
	}
	return plain.Cut(s, r.most)
}

// plan is what is to be done with the strings of a message.
type plan struct{ fields []field }

// field is one that has strings in it.
type field struct {
	fd   protoreflect.FieldDescriptor
	plan *plan // of a message
	rule rule  // of a string
	said bool  // it is in said
	// isMap and isList are fd's, whose own take longer.
	isMap, isList bool
}

// plans has a plan for each message in events that has strings, by the message's name. They are built when they are
// first needed: that decodes the contract.
var plans = sync.OnceValue(func() map[protoreflect.FullName]*plan {
	declared := map[string]rule{}
	for class, names := range fields {
		for _, name := range names {
			declared[name] = rule{class, class.most()}
		}
	}
	for name, most := range bounds {
		declared[name] = rule{declared[name].class, most}
	}
	b := builder{declared: declared, plans: map[protoreflect.FullName]*plan{}}
	b.plan((&journaletv1.Event{}).ProtoReflect().Descriptor())
	return b.plans
})

type builder struct {
	declared map[string]rule
	plans    map[protoreflect.FullName]*plan
}

// plan returns a message's plan, nil if it has no strings. No message of an event contains itself.
func (b *builder) plan(md protoreflect.MessageDescriptor) *plan {
	if p, ok := b.plans[md.FullName()]; ok {
		return p
	}
	p := new(plan)
	for i := range md.Fields().Len() {
		f := field{fd: md.Fields().Get(i)}
		f.isMap, f.isList = f.fd.IsMap(), f.fd.IsList()
		value := f.fd
		if f.isMap {
			value = f.fd.MapValue()
		}
		if value.Message() != nil {
			f.plan = b.plan(value.Message())
		}
		f.said = slices.Contains(said, Name(f.fd))
		known := false
		if f.rule, known = b.declared[Name(f.fd)]; !known {
			f.rule = rule{name, maxFactBytes} // of a decision, which is no fact
		}
		if f.plan != nil || value.Kind() == protoreflect.StringKind ||
			f.isMap && f.fd.MapKey().Kind() == protoreflect.StringKind {
			p.fields = append(p.fields, f)
		}
	}
	if len(p.fields) == 0 {
		p = nil
	}
	b.plans[md.FullName()] = p
	return p
}

// Name returns a field's name as fields.go has it: message.field.
func Name(fd protoreflect.FieldDescriptor) string {
	return strings.Join([]string{string(fd.Parent().Name()), string(fd.Name())}, ".")
}
