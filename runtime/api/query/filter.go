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
			return badRequest("%q is not a kind of actor: want agent, source, pod, runtime, node or image", f.Kind)
		}
	}
	if f.Event != "" && kinds.ByName(protoreflect.Name(f.Event)) == nil {
		return badRequest("%q is not an event: want one of %s", f.Event, strings.Join(EventNames(), ", "))
	}
	if len(f.UIDs) > maxUIDs {
		return badRequest("%d UIDs given, at most %d", len(f.UIDs), maxUIDs)
	}
	return nil
}

var kinds = (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()

// EventNames returns the names of all events in the contract, sorted.
func EventNames() []string {
	out := make([]string, kinds.Len())
	for i := range out {
		out[i] = string(kinds.Get(i).Name())
	}
	slices.Sort(out)
	return out
}

// Event returns the typed event of f. It fails for an event of a newer agent that this version does not know.
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

// addUIDs adds the pod's UID from an event that names the pod, for later calls of Match.
func (f *Filter) addUIDs(e *journaletv1.Event) {
	if f.Pod == "" {
		return
	}
	for _, ref := range namedPods(e) {
		if matchesName(f.Pod, f.Node, ref.GetNamespace(), ref.GetName()) {
			f.addUID(ref.GetUid())
		}
	}
}

// matchesName reports whether wanted is the name or namespace/name of a pod: in full, or as in its manifest, without
// the suffix of a static pod.
func matchesName(wanted, node, namespace, name string) bool {
	for _, a := range []string{wanted, wanted + "-" + node} {
		if a == name || a == namespace+"/"+name {
			return true
		}
	}
	return false
}

func (f *Filter) addUID(uid string) {
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

// namedPods returns the pods whose UID, namespace and name an event holds.
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
	}); ok { // Quarantined and QuarantineLifted name their actor.
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
