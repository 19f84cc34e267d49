package why

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/history"
)

// Query is what is asked of a journal: Seq, or Pod.
type Query struct {
	// Seq is a record.
	Seq uint64 `json:"seq,omitempty"`
	// Pod is a name, namespace/name or UID. UID chooses among pods that have had one name.
	Pod       string `json:"pod,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Container asks why that container of the pod was restarted.
	Container string `json:"container,omitempty"`
	// Restart is the number of the restart, 0 for the last one.
	Restart uint32 `json:"restart,omitempty"`
	// All adds the whole chain of causes, with the events as they were recorded.
	All bool `json:"all,omitempty"`
	// Limit bounds the records that are read; 0 means DefaultLimit.
	Limit int `json:"limit,omitempty"`
}

// Answer is the response to a Query. Its JSON form only grows.
type Answer struct {
	Node string `json:"node"`
	// Time is the time of the journal's last record: everything is as of then.
	Time time.Time `json:"time"`
	// Seq is the record in query, or the last one.
	Seq uint64 `json:"seq"`
	Pod *Pod   `json:"pod,omitempty"`
	// Summary is the answer in one sentence. For a pod it is composed of the fields below.
	Summary string `json:"summary"`
	// Headline replaces State in an answer about a restart.
	Headline string `json:"headline,omitempty"`
	// State is the pod's state in words, since Since, reported by record SinceSeq, 0 if that is not known.
	State    string    `json:"state,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	SinceSeq uint64    `json:"sinceSeq,omitempty"`
	// Because is the main reason for the state; what it waits for is so since WaitsSince.
	Because    string    `json:"because,omitempty"`
	WaitsSince time.Time `json:"waitsSince,omitzero"`
	// UntilWhat happens at Until.
	Until     time.Time `json:"until,omitzero"`
	UntilWhat string    `json:"untilWhat,omitempty"`
	// Ended is the instance whose end led to a restart.
	Ended *Ended `json:"ended,omitempty"`
	// Reasons are what it follows from, the oldest first.
	Reasons []Line `json:"reasons,omitempty"`
	// Start is where the time of the pod's start went.
	Start *Start `json:"start,omitempty"`
	// Chains lead from decisions to facts from outside.
	Chains []ChainAnswer `json:"chains,omitempty"`
}

// Ended is how an instance of a container ended.
type Ended struct {
	ContainerID string    `json:"containerID"`
	Container   string    `json:"container"`
	Restart     uint32    `json:"restart"`
	ExitCode    int32     `json:"exitCode"`
	Reason      string    `json:"reason,omitempty"`
	Started     time.Time `json:"started,omitzero"`
	Finished    time.Time `json:"finished,omitzero"`
	// Vanished is set if the runtime does not show how it ended; ExitCode says nothing then.
	Vanished bool `json:"vanished,omitempty"`
	// StoppedBy is the record of the call that ended it, 0 if it ended by itself; StopReason is what that call names.
	StoppedBy  uint64 `json:"stoppedBy,omitempty"`
	StopReason string `json:"stopReason,omitempty"`
}

// Pod names the pod of an answer.
type Pod struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid"`
}

// String returns namespace/name, or the UID of a pod without a name.
func (p *Pod) String() string {
	if p.Name == "" {
		return p.UID
	}
	return p.Namespace + "/" + p.Name
}

// Line is one event in words.
type Line struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// Actor is the event's author, as kind/id; Event its name in the contract.
	Actor string `json:"actor,omitempty"`
	// By is the author with a pod's name in place of its UID.
	By    string `json:"by,omitempty"`
	Event string `json:"event,omitempty"`
	// Relation says how the event led to the one before it in a chain.
	Relation Relation `json:"relation,omitempty"`
	Text     string   `json:"text"`
	// Data is the event as it was recorded, where Query.All is set.
	Data json.RawMessage `json:"data,omitempty"`

	origin bool // added as what began another line
}

// ChainAnswer is why decisions were taken.
type ChainAnswer struct {
	// Decisions are the decisions of one step with the same causes, or a fact.
	Decisions []Line `json:"decisions"`
	// Causes lead to the end; each led to the one before it.
	Causes []Line `json:"causes"`
	End    End    `json:"end"`
}

// Explain answers a query from a journal. Errors are history.ErrGone and history.ErrNoRecord for a record that is not
// there, *NotFoundError for a pod or a restart that is not there, *AmbiguousError for a name of several pods.
func Explain(ctx context.Context, r history.Reader, q Query) (*Answer, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	x := newExplainer(ctx, r, q.Limit)
	if q.Seq > 0 {
		return x.ofRecord(q)
	}
	return x.ofPod(q)
}

// newAnswer returns an answer as of the journal's end.
func (x *explainer) newAnswer() *Answer {
	a := &Answer{Node: x.j.r.Node(), Seq: x.j.last}
	if rec, err := x.j.get(x.j.last); err == nil {
		a.Time = rec.GetTime().AsTime()
	}
	return a
}

// line describes an event.
func (x *explainer) line(e Event, all bool) Line {
	l := Line{Seq: e.Seq, Time: e.Time, Actor: e.Author.String(), Event: e.Name(), Text: x.sentence(e)}
	l.By = x.d.Actor(e.Author)
	if all {
		l.Data = data(e)
	}
	return l
}

// data returns an event as observers receive it.
func data(e Event) json.RawMessage {
	fd := messages.EventField(e.Body)
	if fd == nil {
		return nil
	}
	m := e.Body.ProtoReflect().Get(fd).Message().Interface()
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	var compact bytes.Buffer // protojson's spaces differ from build to build
	if err != nil || json.Compact(&compact, b) != nil {
		return nil
	}
	return compact.Bytes()
}
