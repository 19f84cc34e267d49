package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
	"github.com/journalet/journalet/runtime/history/start"
)

// builder folds records, in the journal's order, to a Timeline. It is not safe for concurrent use.
type builder struct {
	o        Options
	choice   choice
	describe *describe.Describer
	starts   *start.Collector
	clock    clock
	node     *Group
	groups   []*Group
	pods     map[string]*pod
	names    map[string]string // by UID, from snapshots
	calls    map[string]*call
	agent    agent
	events   []*Event
	// results maps the record of a fact to the record of what the agent did that it is the result of; doing holds what is
	// under way, by call, timer or probe.
	results map[uint64]uint64
	doing   map[string]uint64

	from     *beginning // nil: with the first record
	last     uint64     // the last record
	lastTime time.Time
	lastAt   float64
	missing  int
	// resolution is the length on the axis below which things are merged, and merged how many events are gone.
	resolution float64
	merged     int
	pastPods   int
}

// newBuilder returns a builder that has seen no record.
func newBuilder(o Options) *builder {
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	b := &builder{
		o: o, describe: describe.New(), starts: start.NewCollector(), pods: map[string]*pod{},
		names: map[string]string{}, calls: map[string]*call{},
		results: map[uint64]uint64{}, doing: map[string]uint64{},
	}
	b.choice = choice{wanted: o.Pods, node: o.node, uids: map[string][]string{}}
	b.node = newGroup(NodeGroup, "node", "")
	b.groups = []*Group{b.node}
	return b
}

// add folds the next record. Records may be missing before it.
func (b *builder) add(rec *journaletv1.Record) {
	at := b.clock.place(rec.GetSeq(), rec.GetTime().AsTime())
	for i, ev := range eventsOf(rec, at) {
		ev.Text = b.describe.Describe(ev.id, ev.author, ev.event)
		ev.Alert = alerts(ev.event)
		ev.Container = b.containerOf(ev)
		if i == 0 {
			b.follow(ev)
		}
		b.track(ev)
		b.place(ev)
	}
	for _, s := range b.starts.Add(rec) {
		b.started(s, false)
	}
	b.last, b.lastTime, b.lastAt = rec.GetSeq(), rec.GetTime().AsTime(), millis(at)
	if len(b.events) > 2*b.o.Limit {
		b.merge(b.o.Limit)
	}
}

// eventsOf returns the events of a record, without their texts.
func eventsOf(rec *journaletv1.Record, at time.Duration) []*Event {
	author := messages.RefOf(rec.GetActor())
	var out []*Event
	for i, e := range messages.Events(rec) {
		ev := &Event{
			Seq: rec.GetSeq(), Index: i, Epoch: rec.GetEpoch(), Time: rec.GetTime().AsTime(), At: millis(at),
			Author: author.String(), Name: messages.EventName(e), Kind: kind.Category(e), Because: -1, Group: -1,
			place: at, author: author, event: e,
		}
		if step := rec.GetStep(); step != nil {
			ev.Cause = step.GetCause()
			ev.id = messages.DecisionID(rec.GetEpoch(), step.GetCause(), author, int(step.GetOffset())+i)
		}
		out = append(out, ev)
	}
	return out
}

// follow reports records that are missing before an event, and a step of the clock.
func (b *builder) follow(ev *Event) {
	if b.last > 0 && ev.Seq > b.last+1 {
		lost := int(ev.Seq - b.last - 1)
		b.missing += lost
		if b.choice.part != nil {
			return // it is a part on purpose
		}
		text := fmt.Sprintf("records #%d to #%d are not in this journal", b.last+1, ev.Seq-1)
		if lost == 1 {
			text = fmt.Sprintf("record #%d is not in this journal", b.last+1)
		}
		b.lapse(ev, text)
	}
	if n := len(b.clock.steps); n > 0 && b.clock.steps[n-1].Seq == ev.Seq {
		shift := b.clock.steps[n-1].Shift
		to := "forward"
		if shift < 0 {
			to, shift = "back", -shift
		}
		b.lapse(ev, fmt.Sprintf("the clock was set %s by %s", to, span(shift)))
	}
}

// previous returns the place of the last record, as an event that no lane shows.
func (b *builder) previous() *Event {
	return &Event{Seq: b.last, Time: b.lastTime, At: b.lastAt, Because: -1, Group: -1}
}

// maxLapses bounds the spans for what is missing: a journal may consist of every second record.
const maxLapses = 200

// lapse adds a span for what is not known between two records.
func (b *builder) lapse(ev *Event, text string) {
	lane := b.node.lane("journal", "", "journal", rankJournal)
	if len(lane.Spans) >= maxLapses {
		return
	}
	from := ev
	if b.last > 0 {
		from = b.previous()
	}
	s := newSpan(from, ClassDown, "gap", text)
	s.lapse = true
	s.finish(ev)
	lane.Spans = append(lane.Spans, s)
}

// place adds an event to its group, if the picture shows it, and folds it.
func (b *builder) place(ev *Event) {
	b.choice.learn(ev.event)
	uids := history.PodsOf(ev.author, ev.event)
	if shown, ok := aboutNode(ev.event); ok {
		if shown || len(b.o.Pods) == 0 || slices.ContainsFunc(uids, b.choice.shows) {
			b.keep(b.node, ev)
		}
		b.foldNode(ev)
		return
	}
	if len(uids) == 0 {
		if len(b.o.Pods) == 0 {
			b.keep(b.node, ev)
		}
		b.foldShared(ev)
		return
	}
	for i, uid := range uids {
		p := b.pods[uid]
		if p == nil && b.choice.shows(uid) {
			p = b.addPod(uid)
		}
		if p == nil {
			continue
		}
		p.name(ev.event)
		if i == 0 {
			b.keep(p.group, ev)
		}
		p.fold(ev)
	}
	b.foldShared(ev)
}

// aboutNode reports whether an event belongs to the node's lanes, and whether the picture of one pod shows it too.
func aboutNode(e *journaletv1.Event) (always, ok bool) {
	switch e.GetKind().(type) {
	case *journaletv1.Event_AgentStarted, *journaletv1.Event_AgentStopped, *journaletv1.Event_JournalDamaged,
		*journaletv1.Event_RuntimeHealthChanged:
		return true, true
	case *journaletv1.Event_ManifestsRead:
		return false, true
	}
	return false, false
}

// keep adds an event to a group's lane of events.
func (b *builder) keep(g *Group, ev *Event) {
	ev.group = g
	b.events = append(b.events, ev)
	lane := g.lane("events", "", "events", rankEvents)
	lane.events = append(lane.events, ev)
}

// maxPods bounds the pods of a picture.
const maxPods = 2000

func (b *builder) addPod(uid string) *pod {
	if len(b.pods) >= maxPods {
		b.pastPods++
		return nil
	}
	p := newPod(b, uid)
	p.group.Name = cmp.Or(b.names[uid], uid)
	b.pods[uid] = p
	b.groups = append(b.groups, p.group)
	return p
}

// track notes what the agent has under way, and which part of that work a fact results from.
func (b *builder) track(ev *Event) {
	timer := func(name string) string { return "timer " + ev.Author + " " + name }
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_CallRequested:
		b.doing["call "+ev.id] = ev.Seq
	case *journaletv1.Event_CallDispatched:
		b.doing["call "+k.CallDispatched.GetIntentId()] = ev.Seq
	case *journaletv1.Event_CallFinished:
		b.result(ev, "call "+k.CallFinished.GetIntentId())
	case *journaletv1.Event_CallDropped:
		delete(b.doing, "call "+k.CallDropped.GetIntentId())
	case *journaletv1.Event_TimerSet:
		b.doing[timer(k.TimerSet.GetName())] = ev.Seq
	case *journaletv1.Event_TimerCleared:
		delete(b.doing, timer(k.TimerCleared.GetName()))
	case *journaletv1.Event_TimerFired:
		b.result(ev, timer(k.TimerFired.GetName()))
	case *journaletv1.Event_ProbesSet:
		if s := k.ProbesSet; len(s.GetKinds()) == 0 {
			delete(b.doing, "probe "+s.GetContainerId())
		} else {
			b.doing["probe "+s.GetContainerId()] = ev.Seq
		}
	case *journaletv1.Event_ProbeResult:
		if seq := b.doing["probe "+k.ProbeResult.GetContainerId()]; seq > 0 && len(b.results) < maxResults {
			b.results[ev.Seq] = seq
		}
	}
}

// maxResults bounds the facts that the builder links to what they result from.
const maxResults = 1 << 20

func (b *builder) result(ev *Event, key string) {
	if seq := b.doing[key]; seq > 0 && len(b.results) < maxResults {
		b.results[ev.Seq] = seq
		delete(b.doing, key)
	}
}

func newGroup(kind, name, uid string) *Group {
	return &Group{Kind: kind, Name: name, UID: uid, Lanes: []*Lane{}, lanes: map[string]*Lane{}}
}

// Ranks of lanes: their order within a group.
const (
	rankAgent = iota
	rankRuntime
	rankJournal
	rankPhase
	rankQuarantine
	rankStart
	rankGates
	rankResize
	rankSandbox
	rankPull
	rankContainer
	rankCalls
	rankEvents
)

// maxLanes bounds the lanes of a group. A pod may have as many containers as its manifest has room for.
const maxLanes = 200

// lane returns the lane with a kind and a name; beyond maxLanes, a lane that is not shown.
func (g *Group) lane(kind, container, name string, rank int) *Lane {
	key := kind + "\x00" + container + "\x00" + name
	if l := g.lanes[key]; l != nil {
		return l
	}
	l := &Lane{Kind: kind, Name: name, Container: container, rank: rank}
	g.lanes[key] = l
	if len(g.Lanes) < maxLanes {
		g.Lanes = append(g.Lanes, l)
	}
	return l
}

// sort puts the lanes in order: by rank, the probes of a container behind it.
func (g *Group) sort() {
	slices.SortStableFunc(g.Lanes, func(x, y *Lane) int {
		if x.rank != y.rank || x.rank != rankContainer || x.Container == y.Container {
			return x.rank - y.rank
		}
		return strings.Compare(x.Container, y.Container)
	})
}

func newSpan(ev *Event, class Class, label, text string) *Span {
	return &Span{
		Class: class, Label: label, Text: text, Begin: ev.At, BeginSeq: ev.Seq, BeginTime: ev.Time, Cause: ev.Cause,
		Event: -1, EndEvent: -1, Open: true, first: ev,
	}
}

// finish ends a span with an event.
func (s *Span) finish(ev *Event) {
	if s.Open {
		s.Open, s.End, s.EndSeq, s.EndTime, s.last = false, max(s.Begin, ev.At), ev.Seq, ev.Time, ev
	}
}

// set ends the open span of a lane and begins another, unless the state is the same.
func (l *Lane) set(ev *Event, class Class, label string) {
	if l.open != nil && l.open.Class == class && l.open.Label == label {
		return
	}
	l.close(ev)
	l.open = newSpan(ev, class, label, ev.Text)
	l.Spans = append(l.Spans, l.open)
}

// close ends the open span of a lane. A span that one record began and ended is dropped: it was never a state.
func (l *Lane) close(ev *Event) {
	if l.open == nil {
		return
	}
	l.open.finish(ev)
	if n := len(l.Spans); l.open.BeginSeq == ev.Seq && n > 0 && l.Spans[n-1] == l.open {
		l.Spans = l.Spans[:n-1]
	}
	l.open = nil
}
