package bundle

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pattern"
)

// action is what becomes of a field in a redacted bundle.
type action int

const (
	// drop clears the field.
	drop action = iota
	// keep leaves a number, an enum, a flag or a time as it is.
	keep
	// vocabulary keeps the words of a known list and drops all other text.
	vocabulary
	// version keeps the leading numbers of a version.
	version
	// condition keeps the known types of conditions; others get a pseudonym.
	condition
	// actorID is an actor's id, and its kind is beside it.
	actorID
	// intent is the id of a decision, reference is kind/id: both hold an actor's id.
	intent
	reference
	// fullName is namespace/name, timer the name of a timer, which may hold other names.
	fullName
	timer

	// The others get a pseudonym of their kind, the same for the same value in one bundle.
	uid
	namespace
	podName
	container
	containerID
	sandboxID
	image
	imageRef
	digest
	source
	path
	node
	hash
)

// pseudonyms are the prefixes of pseudonyms.
var pseudonyms = map[action]string{
	uid: "uid-", namespace: "namespace-", podName: "pod-", container: "container-", containerID: "cid-",
	sandboxID: "sid-", image: "image-", imageRef: "ref-", source: "source-", path: "path-", node: "node-",
	hash: "hash-", condition: "condition-", timer: "timer-",
}

// redactor replaces what identifies pods, people and machines by pseudonyms.
type redactor struct {
	names map[action]map[string]string
	// plans are what becomes of the fields of a message.
	plans map[protoreflect.FullName]map[protoreflect.FieldNumber]action
	// hash is the hash of the record before, as redacted. The chain begins without a hash or, where the first record is
	// not the journal's first, with a hash of nothing.
	hash []byte
}

// actions is fields by message and field.
var actions = sync.OnceValue(func() map[string]action {
	out := map[string]action{}
	for a, names := range fields {
		for _, name := range names {
			out[name] = a
		}
	}
	return out
})

func newRedactor() *redactor {
	return &redactor{
		names: map[action]map[string]string{},
		plans: map[protoreflect.FullName]map[protoreflect.FieldNumber]action{},
	}
}

// record redacts a record in place and returns its new stored form.
func (r *redactor) record(rec *journaletv1.Record) ([]byte, error) {
	r.message(rec.ProtoReflect())
	if r.hash == nil && rec.GetSeq() > 1 {
		r.hash = messages.Hash(nil)
	}
	rec.PreviousHash = r.hash
	b, err := messages.Encode(rec)
	if err != nil {
		return nil, err
	}
	r.hash = messages.Hash(b)
	return b, nil
}

// header redacts a header in place.
func (r *redactor) header(h *journaletv1.BundleHeader) {
	h.Node = r.name(node, h.GetNode())
	h.Version = leadingNumbers(h.GetVersion())
	for _, p := range h.GetPods() {
		p.Uid, p.Name = r.name(uid, p.GetUid()), r.name(podName, p.GetName())
		p.Namespace = r.name(namespace, p.GetNamespace())
	}
}

func (r *redactor) plan(md protoreflect.MessageDescriptor) map[protoreflect.FieldNumber]action {
	if p, ok := r.plans[md.FullName()]; ok {
		return p
	}
	p := map[protoreflect.FieldNumber]action{}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		p[fd.Number()] = actions()[string(md.Name())+"."+string(fd.Name())] // unlisted: drop
	}
	r.plans[md.FullName()] = p
	return p
}

// message redacts a message in place.
func (r *redactor) message(m protoreflect.Message) {
	if len(m.GetUnknown()) > 0 {
		m.SetUnknown(nil)
	}
	plan := r.plan(m.Descriptor())
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		a := plan[fd.Number()]
		switch {
		case fd.IsMap():
			r.entries(m, fd, v.Map(), a)
		case fd.Message() != nil && fd.IsList():
			for i := range v.List().Len() {
				r.message(v.List().Get(i).Message())
			}
		case fd.Message() != nil:
			r.message(v.Message())
		case a == keep && fd.Kind() != protoreflect.StringKind && fd.Kind() != protoreflect.BytesKind:
		case a == drop || a == keep || fd.Kind() != protoreflect.StringKind:
			m.Clear(fd)
		case fd.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, protoreflect.ValueOfString(r.text(a, m, v.List().Get(i).String())))
			}
		default:
			m.Set(fd, protoreflect.ValueOfString(r.text(a, m, v.String())))
		}
		return true
	})
}

// entries redacts a map of messages by names, and drops any other.
func (r *redactor) entries(m protoreflect.Message, fd protoreflect.FieldDescriptor, from protoreflect.Map, a action) {
	if a == drop || a == keep || fd.MapValue().Message() == nil || fd.MapKey().Kind() != protoreflect.StringKind {
		m.Clear(fd)
		return
	}
	to := m.NewField(fd)
	from.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		r.message(v.Message())
		to.Map().Set(protoreflect.ValueOfString(r.text(a, m, k.String())).MapKey(), v)
		return true
	})
	m.Set(fd, to)
}

// text returns what replaces a text in a message.
func (r *redactor) text(a action, in protoreflect.Message, s string) string {
	switch a {
	case vocabulary:
		return r.reason(s)
	case version:
		return leadingNumbers(s)
	case condition:
		if conditions()[s] {
			return s
		}
	case actorID:
		return r.actor(kindOf(in), s)
	case intent:
		d, err := messages.ParseDecisionID(s)
		if err != nil {
			return ""
		}
		d.Author.ID = r.actor(d.Author.Kind, d.Author.ID)
		return messages.DecisionID(d.Epoch, d.Cause, d.Author, d.Index)
	case reference:
		ref, err := messages.ParseRef(s)
		if err != nil {
			return ""
		}
		ref.ID = r.actor(ref.Kind, ref.ID)
		return ref.String()
	case fullName:
		ns, name, ok := strings.Cut(s, "/")
		if !ok {
			return ""
		}
		return r.name(namespace, ns) + "/" + r.name(podName, name)
	case source:
		if s == messages.FileSource || s == messages.HTTPSource {
			return s
		}
	case timer:
		return r.timer(s)
	}
	return r.name(a, s)
}

// name returns the pseudonym of a name, "" for none.
func (r *redactor) name(a action, s string) string {
	if s == "" {
		return ""
	}
	known := r.names[a]
	if known == nil {
		known = map[string]string{}
		r.names[a] = known
	}
	p, ok := known[s]
	if !ok {
		n := len(known) + 1
		if p = pseudonyms[a] + strconv.Itoa(n); a == digest {
			p = fmt.Sprintf("sha256:%064x", n)
		}
		known[s] = p
	}
	return p
}

// actor returns the id of an actor of a kind.
func (r *redactor) actor(kind journaletv1.ActorKind, id string) string {
	switch {
	case kind == journaletv1.ActorKind_ACTOR_KIND_POD:
		return r.name(uid, id)
	case kind == journaletv1.ActorKind_ACTOR_KIND_SOURCE:
		return r.text(source, nil, id)
	case id == messages.Singleton:
		return id
	}
	return ""
}

// kindOf returns the kind beside an actor's id: an enum, or its name.
func kindOf(m protoreflect.Message) journaletv1.ActorKind {
	switch m := m.Interface().(type) {
	case *journaletv1.Actor:
		return m.GetKind()
	case interface{ GetKind() string }:
		if ref, err := messages.ParseRef(m.GetKind() + "/x"); err == nil {
			return ref.Kind
		}
	}
	return journaletv1.ActorKind_ACTOR_KIND_UNSPECIFIED
}

// timer returns the name of a timer with the names in it replaced: of a container, or of a pod and an image.
func (r *redactor) timer(s string) string {
	if timers()[s] {
		return s
	}
	for _, prefix := range timersOfContainers {
		if name, ok := strings.CutPrefix(s, prefix); ok {
			return prefix + r.name(container, name)
		}
	}
	for _, prefix := range timersOfSeconds {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			if _, err := strconv.ParseInt(rest, 10, 64); err == nil {
				return s
			}
		}
	}
	if id, img, ok := strings.Cut(s, " "); ok && r.names[uid][id] != "" {
		return r.name(uid, id) + " " + r.name(image, img)
	}
	return r.name(timer, s)
}

// reason keeps a known reason, and a sentence of known words and names of containers; all else becomes "".
func (r *redactor) reason(s string) string {
	if reasons()[s] {
		return s
	}
	if known, _, ok := strings.Cut(s, ": "); ok && reasons()[known] {
		return known // what follows is the runtime's own text
	}
	words := strings.Split(s, " ")
	for i, w := range words {
		bare := strings.TrimSuffix(w, ",")
		switch name := r.names[container][bare]; {
		case name != "":
			words[i] = name + w[len(bare):]
		case !reasonWords()[bare]:
			return ""
		}
	}
	return strings.Join(words, " ")
}

var versionForm = pattern.Lazy(`^v?[0-9]{1,9}(\.[0-9]{1,9}){0,3}`)

// leadingNumbers returns the numbers that a version begins with: what follows may name a build, a machine or a company.
func leadingNumbers(s string) string { return versionForm().FindString(s) }
