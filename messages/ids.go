package messages

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Singleton is the id of every actor that exists once.
const Singleton = "0"

// MaxIDBytes bounds the id of an actor: it is a token of subjects and part of the ids of decisions. A UUID has
// 36 bytes.
const MaxIDBytes = 64

// CheckID returns an error unless id can name an actor: 1 to MaxIDBytes letters, digits, '-' and '_'.
func CheckID(id string) error {
	if id == "" || len(id) > MaxIDBytes {
		return fmt.Errorf("an id of %d bytes: want 1 to %d", len(id), MaxIDBytes)
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return errors.New("an id holds only letters, digits, - and _")
		}
	}
	return nil
}

// The ids of the source actors: of the static pod directory, which every node has, of the manifest URL, and of the API
// server.
const (
	FileSource = "file"
	HTTPSource = "http"
	APISource  = "api"
)

var kindNames = map[journaletv1.ActorKind]string{
	journaletv1.ActorKind_ACTOR_KIND_AGENT:   "agent",
	journaletv1.ActorKind_ACTOR_KIND_SOURCE:  "source",
	journaletv1.ActorKind_ACTOR_KIND_POD:     "pod",
	journaletv1.ActorKind_ACTOR_KIND_RUNTIME: "runtime",
	journaletv1.ActorKind_ACTOR_KIND_NODE:    "node",
	journaletv1.ActorKind_ACTOR_KIND_IMAGE:   "image",
}

// Ref names an actor; it is comparable and prints as kind/id.
type Ref struct {
	Kind journaletv1.ActorKind
	ID   string
}

// The actors that exist once.
var (
	Agent   = Ref{journaletv1.ActorKind_ACTOR_KIND_AGENT, Singleton}
	Runtime = Ref{journaletv1.ActorKind_ACTOR_KIND_RUNTIME, Singleton}
	Node    = Ref{journaletv1.ActorKind_ACTOR_KIND_NODE, Singleton}
	Image   = Ref{journaletv1.ActorKind_ACTOR_KIND_IMAGE, Singleton}
)

// Pod returns the actor of the pod with this UID.
func Pod(uid string) Ref { return Ref{journaletv1.ActorKind_ACTOR_KIND_POD, uid} }

// Source returns the actor of the source with this name.
func Source(name string) Ref { return Ref{journaletv1.ActorKind_ACTOR_KIND_SOURCE, name} }

// RefOf returns the Ref of an actor's wire form.
func RefOf(a *journaletv1.Actor) Ref { return Ref{a.GetKind(), a.GetId()} }

// Proto returns the wire form.
func (r Ref) Proto() *journaletv1.Actor { return &journaletv1.Actor{Kind: r.Kind, Id: r.ID} }

// KindName returns the kind in lower case, as subjects and commands spell it; "unknown" for no kind.
func (r Ref) KindName() string {
	if n, ok := kindNames[r.Kind]; ok {
		return n
	}
	return "unknown"
}

func (r Ref) String() string { return r.KindName() + "/" + r.ID }

// ParseRef reads what String prints.
func ParseRef(s string) (Ref, error) {
	kind, id, ok := strings.Cut(s, "/")
	if ok && id != "" {
		for k, n := range kindNames {
			if n == kind {
				return Ref{k, id}, nil
			}
		}
	}
	return Ref{}, fmt.Errorf("%q is not an actor: want kind/id, a kind is agent, source, pod, runtime, node or image", s)
}

// DecisionID returns the id of the decision at index in author's step on the record cause, in the run epoch:
// "<epoch>.<cause>.<actor>.<index>". No id is used twice, not even after a journal lost its tail: the epoch is new, and
// on disk before a run's first decision.
func DecisionID(epoch, cause uint64, author Ref, index int) string {
	b := make([]byte, 0, 72)
	b = strconv.AppendUint(b, epoch, 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, cause, 10)
	b = append(b, '.')
	b = append(b, author.KindName()...)
	b = append(b, '/')
	b = append(b, author.ID...)
	b = append(b, '.')
	return string(strconv.AppendInt(b, int64(index), 10))
}

// Decision is a parsed decision id.
type Decision struct {
	Epoch, Cause uint64
	Author       Ref
	Index        int
}

// ParseDecisionID reads what DecisionID writes.
func ParseDecisionID(id string) (Decision, error) {
	bad := fmt.Errorf("%q is not a decision id: want <epoch>.<cause>.<kind>/<id>.<index>", id)
	epoch, rest, ok1 := strings.Cut(id, ".")
	cause, rest, ok2 := strings.Cut(rest, ".")
	dot := strings.LastIndexByte(rest, '.')
	if !ok1 || !ok2 || dot < 0 {
		return Decision{}, bad
	}
	var d Decision
	var err error
	if d.Epoch, err = strconv.ParseUint(epoch, 10, 64); err != nil {
		return Decision{}, bad
	}
	if d.Cause, err = strconv.ParseUint(cause, 10, 64); err != nil {
		return Decision{}, bad
	}
	if d.Author, err = ParseRef(rest[:dot]); err != nil {
		return Decision{}, bad
	}
	if d.Index, err = strconv.Atoi(rest[dot+1:]); err != nil {
		return Decision{}, bad
	}
	return d, nil
}
