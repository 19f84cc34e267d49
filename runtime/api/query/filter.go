package query

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Filter says which events are wanted; what is empty lets everything through.
type Filter struct {
	// Node is the node asked; a pod may be named without its suffix -<node>.
	Node string `json:"node,omitempty"`
	// Pod is a name, namespace/name or UID. An event is about a pod if it stands under the pod's
	// name or tells something to it or of it.
	Pod string `json:"pod,omitempty"`
	// UIDs are what is known of Pod: a name has had more than one, once its manifest changed.
	UIDs []string `json:"uids,omitempty"`
	// Kind is an actor kind in lower case: agent, source, pod, runtime, node or image.
	Kind string `json:"kind,omitempty"`
	// Event is an event's name in the contract, such as call_finished.
	Event string `json:"event,omitempty"`
}

// Check refuses a filter that can match nothing because of a typing error.
func (f *Filter) Check() error {
	if f.Kind != "" {
		if _, err := messages.ParseRef(f.Kind + "/x"); err != nil {
			return badRequest("%q is no kind of actor: want agent, source, pod, runtime, node or image", f.Kind)
		}
	}
	if f.Event != "" && kinds.ByName(protoreflect.Name(f.Event)) == nil {
		return badRequest("%q is no event: want one of %s", f.Event, strings.Join(EventNames(), ", "))
	}
	if len(f.UIDs) > maxUIDs {
		return badRequest("%d UIDs are given, and %d are the most", len(f.UIDs), maxUIDs)
	}
	return nil
}

var kinds = (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()

// EventNames are the names of all events in the contract, sorted.
func EventNames() []string {
	out := make([]string, kinds.Len())
	for i := range out {
		out[i] = string(kinds.Get(i).Name())
	}
	slices.Sort(out)
	return out
}

// Event is the event in f with its type. It fails for one that a newer agent made and this version
// does not know.
func Event(f *bus.Flat) (*journaletv1.Event, error) {
	fd := kinds.ByName(protoreflect.Name(f.Event))
	if fd == nil {
		return nil, fmt.Errorf("record %d holds an event %q that this version does not know", f.Seq, f.Event)
	}
	e := &journaletv1.Event{}
	m := e.ProtoReflect().Mutable(fd).Message().Interface()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(f.Data, m); err != nil {
		return nil, fmt.Errorf("record %d, event %s: %w", f.Seq, f.Event, err)
	}
	return e, nil
}

// learn takes a pod's UID from an event that names the pod, so that Match knows it from then on.
func (f *Filter) learn(e *journaletv1.Event) {
	if f.Pod == "" {
		return
	}
	for _, ref := range namedPods(e) {
		if isNamed(f.Pod, f.Node, ref.GetNamespace(), ref.GetName()) {
			f.know(ref.GetUid())
		}
	}
}

// isNamed tells whether who asks for a pod by these words means the pod with this name: in full, or
// as its manifest has it, without the suffix that a static pod gets.
func isNamed(asked, node, namespace, name string) bool {
	for _, a := range []string{asked, asked + "-" + node} {
		if a == name || a == namespace+"/"+name {
			return true
		}
	}
	return false
}

func (f *Filter) know(uid string) {
	if uid != "" && len(f.UIDs) < maxUIDs && !slices.Contains(f.UIDs, uid) {
		f.UIDs = append(f.UIDs, uid)
	}
}

// Match tells whether an event is wanted. Of a pod's name it learns as it goes, so events are to be
// shown to it in the journal's order.
func (f *Filter) Match(author messages.Ref, e *journaletv1.Event) bool {
	f.learn(e)
	if f.Kind != "" && f.Kind != author.KindName() || f.Event != "" && f.Event != messages.EventName(e) {
		return false
	}
	if f.Pod == "" {
		return true
	}
	for _, uid := range PodsOf(author, e) {
		if uid == f.Pod || slices.Contains(f.UIDs, uid) {
			return true
		}
	}
	return false
}

// namedPods are the pods that an event names in full.
func namedPods(e *journaletv1.Event) []*journaletv1.PodRef {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PodUpdated:
		return []*journaletv1.PodRef{k.PodUpdated.GetPod()}
	case *journaletv1.Event_ManifestIgnored:
		return []*journaletv1.PodRef{k.ManifestIgnored.GetPod()}
	case *journaletv1.Event_AdmissionRequested:
		a := k.AdmissionRequested
		return []*journaletv1.PodRef{{Uid: a.GetUid(), Namespace: a.GetNamespace(), Name: a.GetName()}}
	case *journaletv1.Event_ManifestsRead:
		var out []*journaletv1.PodRef
		for _, file := range k.ManifestsRead.GetChanged() {
			out = append(out, file.GetPods()...)
		}
		return out
	}
	return nil
}

// PodsOf are the UIDs of the pods that an event is about.
func PodsOf(author messages.Ref, e *journaletv1.Event) []string {
	var out []string
	add := func(uid string) {
		if uid != "" && !slices.Contains(out, uid) {
			out = append(out, uid)
		}
	}
	addRef := func(r messages.Ref) {
		if r.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
			add(r.ID)
		}
	}
	addRef(author)
	for _, p := range namedPods(e) {
		add(p.GetUid())
	}
	fd := messages.EventField(e)
	if fd == nil {
		return out
	}
	m := e.ProtoReflect().Get(fd).Message()
	for _, field := range []protoreflect.Name{"uid", "pod_uid"} {
		add(text(m, field))
	}
	if r, err := messages.ParseRef(text(m, "requester")); err == nil {
		addRef(r)
	}
	if d, err := messages.ParseDecisionID(text(m, "intent_id")); err == nil {
		addRef(d.Author)
	}
	if q, ok := m.Interface().(interface {
		proto.Message
		GetKind() string
		GetId() string
	}); ok { // Quarantined and Released name their actor.
		if r, err := messages.ParseRef(q.GetKind() + "/" + q.GetId()); err == nil {
			addRef(r)
		}
	}
	return out
}

func text(m protoreflect.Message, field protoreflect.Name) string {
	if fd := m.Descriptor().Fields().ByName(field); fd != nil && fd.Kind() == protoreflect.StringKind && !fd.IsList() {
		return m.Get(fd).String()
	}
	return ""
}
