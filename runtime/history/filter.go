package history

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxUIDs bounds the UIDs that a filter on a pod's name matches.
const maxUIDs = 256

// Filter selects events. An empty field matches every event.
type Filter struct {
	// Node is the agent's node: Pod may be a static pod's name without its suffix -<node>.
	Node string `json:"node,omitempty"`
	// Pod is a name, namespace/name or UID. It matches events that the pod's actor recorded and those that name the pod.
	Pod string `json:"pod,omitempty"`
	// UIDs are those that Pod has had, as far as they are known: a replaced pod gets another one.
	UIDs []string `json:"uids,omitempty"`
	// Kind is an actor kind in lower case: agent, source, pod, runtime, node or image.
	Kind string `json:"kind,omitempty"`
	// Event is an event's name in the contract, such as call_finished.
	Event string `json:"event,omitempty"`
}

// Check rejects a filter that can match nothing because of a typo.
func (f *Filter) Check() error {
	if f.Kind != "" {
		if _, err := messages.ParseRef(f.Kind + "/x"); err != nil {
			return fmt.Errorf("%q is not a kind of actor: want agent, source, pod, runtime, node or image", f.Kind)
		}
	}
	if f.Event != "" && eventFields.ByName(protoreflect.Name(f.Event)) == nil {
		return fmt.Errorf("%q is not an event: want one of %s", f.Event, strings.Join(EventNames(), ", "))
	}
	if len(f.UIDs) > maxUIDs {
		return fmt.Errorf("%d UIDs given, at most %d", len(f.UIDs), maxUIDs)
	}
	return nil
}

var eventFields = (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()

// EventNames returns the names of all events in the contract, sorted.
func EventNames() []string {
	out := make([]string, eventFields.Len())
	for i := range out {
		out[i] = string(eventFields.Get(i).Name())
	}
	slices.Sort(out)
	return out
}

// Event returns the typed event of f. It fails for an event of a newer agent that this version does not know.
func Event(f *messages.Flat) (*journaletv1.Event, error) {
	fd := eventFields.ByName(protoreflect.Name(f.Event))
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

// addUIDs adds the pod's UID from an event that names the pod, for later calls of Match.
func (f *Filter) addUIDs(e *journaletv1.Event) {
	if f.Pod == "" {
		return
	}
	for _, ref := range NamedPods(e) {
		if MatchesName(f.Pod, f.Node, ref.GetNamespace(), ref.GetName()) {
			f.AddUID(ref.GetUid())
		}
	}
}

// MatchesName reports whether wanted is the name or namespace/name of a pod: in full, or as in its manifest, without
// the suffix of a static pod.
func MatchesName(wanted, node, namespace, name string) bool {
	for _, a := range []string{wanted, wanted + "-" + node} {
		if a == name || a == namespace+"/"+name {
			return true
		}
	}
	return false
}

// AddUID adds a UID that the filter's pod has had.
func (f *Filter) AddUID(uid string) {
	if uid != "" && len(f.UIDs) < maxUIDs && !slices.Contains(f.UIDs, uid) {
		f.UIDs = append(f.UIDs, uid)
	}
}

// Match reports whether the filter selects an event. It collects the UIDs of the pod's name on the way, so it must get
// the events in the journal's order.
func (f *Filter) Match(author messages.Ref, e *journaletv1.Event) bool {
	f.addUIDs(e)
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

// NamedPods returns the pods whose UID, namespace and name an event holds.
func NamedPods(e *journaletv1.Event) []*journaletv1.PodRef {
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

// PodsOf returns the UIDs of the pods that an event is about.
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
	for _, p := range NamedPods(e) {
		add(p.GetUid())
	}
	fd := messages.EventField(e)
	if fd == nil {
		return out
	}
	m := e.ProtoReflect().Get(fd).Message()
	for _, field := range []protoreflect.Name{"uid", "pod_uid"} {
		add(Text(m, field))
	}
	if r, err := messages.ParseRef(Text(m, "requester")); err == nil {
		addRef(r)
	}
	if d, err := messages.ParseDecisionID(Text(m, "intent_id")); err == nil {
		addRef(d.Author)
	}
	if q, ok := m.Interface().(interface {
		proto.Message
		GetKind() string
		GetId() string
	}); ok { // Quarantined and QuarantineLifted name their actor.
		if r, err := messages.ParseRef(q.GetKind() + "/" + q.GetId()); err == nil {
			addRef(r)
		}
	}
	return out
}

// Text returns a string field of a message, "" if it has none with this name.
func Text(m protoreflect.Message, field protoreflect.Name) string {
	if fd := m.Descriptor().Fields().ByName(field); fd != nil && fd.Kind() == protoreflect.StringKind && !fd.IsList() {
		return m.Get(fd).String()
	}
	return ""
}

// Concerns reports whether an actor receives an event that author recorded.
func Concerns(ref, author messages.Ref, e *journaletv1.Event) bool {
	audience, everyone := messages.Audience(author, e)
	return everyone || author == ref || slices.Contains(audience, ref)
}
