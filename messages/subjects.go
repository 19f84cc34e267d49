package messages

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Subjects of the bus. A node's name stands in them as one token, see Token.
//
//	node.<node>.<actor kind>.<id>.<fact>      a fact, by its event's name
//	node.<node>.<actor kind>.<id>.decided     a step, by its author
//	event.<node>.<actor kind>.<id>.<event>    one event for observers, as JSON, only while one listens
//	manifest.<node>.<digest>                  one manifest, by what it holds
//	snapshot.<node>.<barrier>.<kind>.<id>     one actor's state
//	snapshot.<node>.<barrier>.index           the mark that a set of snapshots is complete
const (
	journalPrefix  = "node."
	eventPrefix    = "event."
	manifestPrefix = "manifest."
	snapshotPrefix = "snapshot."
	// Decided is the last token of a step's subject.
	Decided = "decided"
)

// Token makes one subject token of a node name. Node names are DNS subdomains, which hold dots but
// never an underscore, so the form is unambiguous.
func Token(node string) string { return strings.ReplaceAll(node, ".", "_") }

// JournalFilter matches all records of a node.
func JournalFilter(node string) string { return journalPrefix + Token(node) + ".>" }

// ActorFilter matches the records that stand under one actor's name: facts about it and its steps.
func ActorFilter(node string, r Ref) string {
	return journalPrefix + Token(node) + "." + r.KindName() + "." + r.ID + ".>"
}

// Subject is where a record stands.
func Subject(node string, rec *journaletv1.Record) string {
	last := Decided
	if fact := rec.GetFact(); fact != nil {
		last = EventName(fact)
	}
	r := RefOf(rec.GetActor())
	return journalPrefix + Token(node) + "." + r.KindName() + "." + r.ID + "." + last
}

// EventSubject is where observers see one event of a record.
func EventSubject(node string, about Ref, event string) string {
	return eventPrefix + Token(node) + "." + about.KindName() + "." + about.ID + "." + event
}

// EventFilter matches every event that observers of a node may see.
func EventFilter(node string) string { return eventPrefix + Token(node) + ".>" }

// EventFilterAll matches the events of every node on the bus.
const EventFilterAll = eventPrefix + ">"

// ManifestSubject is where the manifest with this digest ("sha256:<hex>") stands.
func ManifestSubject(node, digest string) string {
	return manifestPrefix + Token(node) + "." + strings.ReplaceAll(digest, ":", "-")
}

// ManifestFilter matches all manifests of a node.
func ManifestFilter(node string) string { return manifestPrefix + Token(node) + ".>" }

// SnapshotPrefix is what all subjects of a node's snapshots begin with.
func SnapshotPrefix(node string) string { return snapshotPrefix + Token(node) + "." }

// EventName is the name of an event's kind in snake case, as in the contract: "pod_observed".
// It is empty for an event of a newer version that this one does not know.
func EventName(e *journaletv1.Event) string {
	fd := EventField(e)
	if fd == nil {
		return ""
	}
	return string(fd.Name())
}

// EventField is the descriptor of the kind that an event holds, nil for none.
func EventField(e *journaletv1.Event) protoreflect.FieldDescriptor {
	m := e.ProtoReflect()
	return m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
}
