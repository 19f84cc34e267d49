package messages

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Subjects of the bus. A node's name is one token, see Token.
//
//	node.<node>.<actor kind>.<id>.<fact>      a fact, by its event's name
//	node.<node>.<actor kind>.<id>.decided     a step, by its author
//	event.<node>.<actor kind>.<id>.<event>    one event as JSON, only while an observer subscribes
//	manifest.<node>.<digest>                  one manifest, or which parts it has
//	manifest.<node>.part.<sum>                a part of large manifests
//	snapshot.<node>.<barrier>.<kind>.<id>     one actor's state
//	snapshot.<node>.<barrier>.index           the mark that a set of snapshots is complete
const (
	journalPrefix  = "node."
	eventPrefix    = "event."
	manifestPrefix = "manifest."
	snapshotPrefix = "snapshot."
	partToken      = "part"
	// Decided is the last token of a step's subject.
	Decided = "decided"
)

// Token returns a node name as one subject token. Node names are DNS subdomains, which hold dots but never an
// underscore, so the form is unambiguous.
func Token(node string) string { return strings.ReplaceAll(node, ".", "_") }

// JournalFilter matches all records of a node.
func JournalFilter(node string) string { return journalPrefix + Token(node) + ".>" }

// ActorFilter matches the records of one actor: facts about it and its steps.
func ActorFilter(node string, r Ref) string {
	return journalPrefix + Token(node) + "." + r.KindName() + "." + r.ID + ".>"
}

// Subject returns the subject of a record.
func Subject(node string, rec *journaletv1.Record) string {
	last := Decided
	if fact := rec.GetFact(); fact != nil {
		last = EventName(fact)
	}
	r := RefOf(rec.GetActor())
	return journalPrefix + Token(node) + "." + r.KindName() + "." + r.ID + "." + last
}

// EventSubject returns the subject on which observers receive one event of a record.
func EventSubject(node string, about Ref, event string) string {
	return eventPrefix + Token(node) + "." + about.KindName() + "." + about.ID + "." + event
}

// EventFilter matches every event of a node.
func EventFilter(node string) string { return eventPrefix + Token(node) + ".>" }

// EventFilterAll matches the events of every node on the bus.
const EventFilterAll = eventPrefix + ">"

// ManifestSubject returns the subject of the manifest with this digest ("sha256:<hex>").
func ManifestSubject(node, digest string) string {
	return manifestPrefix + Token(node) + "." + strings.ReplaceAll(digest, ":", "-")
}

// ManifestPartSubject returns the subject of the part with this SHA-256, in hex.
func ManifestPartSubject(node, sum string) string {
	return manifestPrefix + Token(node) + "." + partToken + "." + sum
}

// ManifestDigestFilter matches all manifests of a node, without their parts.
func ManifestDigestFilter(node string) string { return manifestPrefix + Token(node) + ".*" }

// ManifestPartFilter matches the parts of all manifests of a node.
func ManifestPartFilter(node string) string {
	return manifestPrefix + Token(node) + "." + partToken + ".*"
}

// ManifestFilter matches all manifests of a node and their parts.
func ManifestFilter(node string) string { return manifestPrefix + Token(node) + ".>" }

// SnapshotPrefix returns the prefix of all subjects of a node's snapshots.
func SnapshotPrefix(node string) string { return snapshotPrefix + Token(node) + "." }

// EventName returns the name of an event's kind in snake case, as in the contract: "pod_observed". It is empty for an
// event that this version does not know.
func EventName(e *journaletv1.Event) string {
	fd := EventField(e)
	if fd == nil {
		return ""
	}
	return string(fd.Name())
}

// EventField returns the descriptor of an event's kind, nil for none.
func EventField(e *journaletv1.Event) protoreflect.FieldDescriptor {
	m := e.ProtoReflect()
	return m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
}
