package timeline

import (
	"encoding/json"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Class is how a span is drawn. It says how good the state is, its label says which one.
type Class string

// The classes of spans, from the least to the most remarkable: a place that holds several spans shows the last of them.
const (
	// ClassDone has ended, and well.
	ClassDone Class = "done"
	// ClassOK is as it should be: ready, running, passing.
	ClassOK Class = "ok"
	// ClassRun runs and is not ready.
	ClassRun Class = "run"
	// ClassWait waits for something else: a slot, an admission, another container.
	ClassWait Class = "wait"
	// ClassBusy is being created, started, pulled or changed.
	ClassBusy Class = "busy"
	// ClassStop is being stopped or removed.
	ClassStop Class = "stop"
	// ClassDown means that the agent did not run, or that records are missing: nothing is known.
	ClassDown Class = "down"
	// ClassBackOff waits after a failure.
	ClassBackOff Class = "back-off"
	// ClassFail has failed, or fails.
	ClassFail Class = "fail"
)

// classes are all classes in the order of their weight.
var classes = []Class{
	ClassDone, ClassOK, ClassRun, ClassWait, ClassBusy, ClassStop, ClassDown, ClassBackOff, ClassFail,
}

// Timeline is a picture of a part of a journal.
type Timeline struct {
	Node string `json:"node"`
	// FirstSeq and LastSeq are the records that were read, FirstTime and LastTime their recorded times.
	FirstSeq  uint64    `json:"firstSeq"`
	LastSeq   uint64    `json:"lastSeq"`
	FirstTime time.Time `json:"firstTime"`
	LastTime  time.Time `json:"lastTime"`
	// Length is the length of the axis in milliseconds.
	Length float64 `json:"length"`
	// ClockSteps are the places where the recorded time jumps, in order.
	ClockSteps []ClockStep `json:"clockSteps"`
	// Groups are the node and then the pods, in order of appearance.
	Groups []*Group `json:"groups"`
	// Events are in the journal's order.
	Events []*Event `json:"events"`
	// Merged is how many events were left out for the limit. They are counted in merged spans.
	Merged int `json:"merged"`
	// Notes say what the picture does not show.
	Notes []string `json:"notes"`
}

// ClockStep is a place where the recorded time jumps: the node's clock was set.
type ClockStep struct {
	Seq uint64 `json:"seq"`
	// At is its place on the axis in milliseconds. From there on recorded times differ by Shift from earlier ones.
	At    float64       `json:"at"`
	Shift time.Duration `json:"shift"`
}

// Kinds of groups.
const (
	NodeGroup = "node"
	PodGroup  = "pod"
)

// Group is the node, or a pod with one UID in all its incarnations.
type Group struct {
	Kind string `json:"kind"`
	// Name is namespace/name of a pod, or its UID while no record has named it.
	Name  string  `json:"name"`
	UID   string  `json:"uid,omitempty"`
	Lanes []*Lane `json:"lanes"`
	// Starts are the last starts of the pod, at most maxStarts.
	Starts []Start `json:"starts,omitempty"`

	lanes map[string]*Lane
}

// Start is one start of a pod, in figures.
type Start struct {
	BeginSeq  uint64    `json:"beginSeq"`
	EndSeq    uint64    `json:"endSeq,omitempty"`
	BeginTime time.Time `json:"beginTime"`
	// Took is in milliseconds, until the end of the picture for a start that has not ended.
	Took float64 `json:"took"`
	// Outcome is ready, succeeded, failed, rejected or ended; empty if the start has not ended.
	Outcome string `json:"outcome,omitempty"`
	// Text is where the time went.
	Text string `json:"text"`
}

// Lane is one row: the states that one thing was in, or its events.
type Lane struct {
	// Kind is phase, sandbox, container, probe, pull, gates, resize, start, calls, quarantine, agent, runtime, journal,
	// or events.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Container is set for lanes of a container and its probes.
	Container string `json:"container,omitempty"`
	// Spans are in the order of their beginnings. They may overlap only in the lanes calls, start and pull.
	Spans []*Span `json:"spans,omitempty"`
	// Marks are positions in Timeline.Events. Only the lane events has them.
	Marks []int `json:"marks,omitempty"`

	open   *Span
	rank   int
	events []*Event
}

// Span is a stretch of time in one state.
type Span struct {
	Class Class  `json:"class"`
	Label string `json:"label"`
	// Text is the sentence of the event that began it, or what the label does not say.
	Text string `json:"text,omitempty"`
	// Begin and End are places on the axis in milliseconds.
	Begin    float64 `json:"begin"`
	End      float64 `json:"end"`
	BeginSeq uint64  `json:"beginSeq"`
	EndSeq   uint64  `json:"endSeq,omitempty"`
	// BeginTime and EndTime are recorded times.
	BeginTime time.Time `json:"beginTime"`
	EndTime   time.Time `json:"endTime"`
	// Cause is the record that led to its beginning, 0 for a fact.
	Cause uint64 `json:"cause,omitempty"`
	// Queued is the place up to which a call waited for its slot, 0 if it did not.
	Queued float64 `json:"queued,omitempty"`
	// Open has not ended at the end of the picture. Before began before it.
	Open   bool `json:"open,omitempty"`
	Before bool `json:"before,omitempty"`
	// Count is the number of spans or events that this one stands for, if it stands for several.
	Count int `json:"count,omitempty"`
	// Event and EndEvent are the positions of the events that began and ended it in Timeline.Events, -1 for none.
	Event    int `json:"event"`
	EndEvent int `json:"endEvent"`

	first, last *Event
	lapse       bool // stands for what is not known, and is never merged
}

// Event is one fact, or one decision of a step.
type Event struct {
	Seq uint64 `json:"seq"`
	// Index is its position in its step.
	Index int       `json:"index,omitempty"`
	Epoch uint64    `json:"epoch"`
	Time  time.Time `json:"time"`
	// At is its place on the axis in milliseconds; below 0 before the picture's beginning.
	At     float64 `json:"at"`
	Author string  `json:"author"`
	Name   string  `json:"event"`
	// Kind is the event's category in the contract, in lower case: agent, source, admission, ...
	Kind string `json:"kind"`
	// Container is the container that it is about, if it is about one.
	Container string `json:"container,omitempty"`
	Text      string `json:"text"`
	// Alert is set for what needs attention: a warning, a failure, a crash.
	Alert bool `json:"alert,omitempty"`
	// Cause is the record that led to a decision, 0 for a fact.
	Cause uint64 `json:"cause,omitempty"`
	// Because is the position in Timeline.Events of the event that led to it, -1 for none. A fact has one if it is the
	// result of what the agent did: the outcome of a call, a timer, a probe.
	Because int `json:"because"`
	// Group is the position of its group, -1 for an event that is here only as a cause.
	Group int `json:"group"`
	// Data is the event with the contract's field names, cut where it is long.
	Data json.RawMessage `json:"data,omitempty"`

	place  time.Duration // At, before it is rounded
	id     string
	author messages.Ref
	event  *journaletv1.Event
	group  *Group
	held   bool // a span begins or ends with it
}
