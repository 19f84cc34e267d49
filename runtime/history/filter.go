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
	"github.com/journalet/journalet/messages/kind"
)

// Limits of what a Filter remembers, and passes on in a request: 64 KiB hold all of it.
const (
	maxUIDs   = 1024
	maxTimers = 128
	maxFired  = 1024
)

// Filter selects events. An empty field matches every event. It learns from the events that it is shown, so it must
// get them in the journal's order, and its copy continues where it stands.
type Filter struct {
	// Node is the agent's node: a pod may be a static pod's name without its suffix -<node>.
	Node string `json:"node,omitempty"`
	// Namespace matches events about pods of this namespace.
	Namespace string `json:"namespace,omitempty"`
	// Pods are names, namespace/names or UIDs. They match events that a pod's actor recorded, and events that name the
	// pod.
	Pods []string `json:"pods,omitempty"`
	// Kind is an actor kind in lower case: agent, source, pod, runtime, node or image.
	Kind string `json:"kind,omitempty"`
	// Author is the actor that decided, or that a fact is about, as kind/id.
	Author string `json:"author,omitempty"`
	// Events are events' names in the contract, such as call_finished.
	Events []string `json:"events,omitempty"`
	// Quiet leaves out timers, unless Events names them.
	Quiet bool `json:"quiet,omitempty"`
	// Cause is a record. It matches that record's events and the events that it led to: decisions with one of them as
	// their cause, outcomes of calls and timers among them, and so on.
	Cause uint64 `json:"cause,omitempty"`

	// UIDs, Timers and Fired are what the filter has learned. UIDs are the UIDs of the pods that Pods and Namespace
	// name, as far as they are known: a replaced pod gets another UID. Timers are the timers that Cause led to, Fired
	// the records of such timers firing: such a record does not name the record that set the timer.
	UIDs   []string `json:"uids,omitempty"`
	Timers []string `json:"timers,omitempty"`
	Fired  []uint64 `json:"fired,omitempty"`

	// Record returns the events of a record for Cause; without it only records that the filter was shown are known. An
	// error other than ErrGone and ErrNoRecord ends Match.
	Record func(seq uint64) ([]messages.Flat, error) `json:"-"`

	led led
}

// Check rejects a filter that can match nothing because of a typo.
func (f *Filter) Check() error {
	if f.Kind != "" {
		if _, err := messages.ParseRef(f.Kind + "/x"); err != nil {
			return fmt.Errorf("%q is not a kind of actor: want agent, source, pod, runtime, node or image", f.Kind)
		}
	}
	if f.Author != "" {
		if _, err := messages.ParseRef(f.Author); err != nil {
			return err
		}
	}
	for _, event := range f.Events {
		if eventFields().ByName(protoreflect.Name(event)) == nil {
			return fmt.Errorf("%q is not an event: want one of %s", event, strings.Join(EventNames(), ", "))
		}
	}
	if len(f.UIDs) > maxUIDs || len(f.Timers) > maxTimers || len(f.Fired) > maxFired {
		return fmt.Errorf("%d UIDs, %d timers and %d records given, at most %d, %d and %d",
			len(f.UIDs), len(f.Timers), len(f.Fired), maxUIDs, maxTimers, maxFired)
	}
	return nil
}

// SelectsPods reports whether the filter is for certain pods.
func (f *Filter) SelectsPods() bool { return len(f.Pods) > 0 || f.Namespace != "" }

// eventFields returns the fields of Event. To list them when the program starts would decode the contract in each run.
func eventFields() protoreflect.FieldDescriptors {
	return (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
}

// EventNames returns the names of all events in the contract, sorted.
func EventNames() []string {
	out := make([]string, eventFields().Len())
	for i := range out {
		out[i] = string(eventFields().Get(i).Name())
	}
	slices.Sort(out)
	return out
}

// Event returns the typed event of f. It fails for an event of a newer agent that this version does not know.
func Event(f *messages.Flat) (*journaletv1.Event, error) {
	fd := eventFields().ByName(protoreflect.Name(f.Event))
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

// Match reports whether the filter selects an event.
func (f *Filter) Match(e *messages.Flat) (bool, error) {
	author, err := messages.ParseRef(e.Author)
	if err != nil {
		return !f.SelectsPods() && f.Kind == "" && f.Author == "" && len(f.Events) == 0 && f.Cause == 0, nil
	}
	event := e.Message()
	if event == nil {
		// nil for an event of a newer agent: shown unless the filter selects by pod or by another event.
		event, _ = Event(e)
	}
	f.addUIDs(event)
	led, err := f.isLed(e, event)
	if err != nil {
		return false, err
	}
	return led && f.matchAuthor(author) && f.matchEvent(e.Event) && f.matchPod(author, event), nil
}

func (f *Filter) matchAuthor(author messages.Ref) bool {
	return (f.Kind == "" || f.Kind == author.KindName()) && (f.Author == "" || f.Author == author.String())
}

func (f *Filter) matchEvent(name string) bool {
	if len(f.Events) > 0 {
		return slices.Contains(f.Events, name)
	}
	return !f.Quiet || kind.Named(name).Severity != kind.Trace
}

func (f *Filter) matchPod(author messages.Ref, e *journaletv1.Event) bool {
	return !f.SelectsPods() || slices.ContainsFunc(PodsOf(author, e), func(uid string) bool {
		return slices.Contains(f.Pods, uid) || slices.Contains(f.UIDs, uid)
	})
}

// addUIDs adds the UIDs of the filter's pods from an event that names them.
func (f *Filter) addUIDs(e *journaletv1.Event) {
	if !f.SelectsPods() {
		return
	}
	for _, ref := range NamedPods(e) {
		f.AddPod(ref.GetUid(), ref.GetNamespace(), ref.GetName())
	}
}

// AddPod adds a pod's UID if the filter selects pods with this namespace and name.
func (f *Filter) AddPod(uid, namespace, name string) {
	named := func(wanted string) bool { return MatchesName(wanted, f.Node, namespace, name) }
	if !f.SelectsPods() || f.Namespace != "" && f.Namespace != namespace ||
		len(f.Pods) > 0 && !slices.ContainsFunc(f.Pods, named) {
		return
	}
	if uid == "" || slices.Contains(f.UIDs, uid) {
		return
	}
	f.UIDs = latest(f.UIDs, uid, maxUIDs)
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

// latest appends v to all, and drops the oldest values beyond most.
func latest[T any](all []T, v T, most int) []T {
	return append(all[max(len(all)-most+1, 0):], v)
}
