package main

import (
	"context"
	"errors"
	"slices"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
	"github.com/journalet/journalet/runtime/history/replay"
)

// stepper reads a journal record by record for the screen.
type stepper struct {
	*replay.Session
	// moment returns the record that a person names by number, time or duration before the end.
	moment func(string) (uint64, error)
	words  *describe.Describer
	named  map[string]*journaletv1.PodRef // of pods whose names were looked up, by UID
}

// maxNamed bounds the looked-up names of pods; beyond it they are looked up again.
const maxNamed = 4096

func newStepper(ctx context.Context, r history.Reader, s *replay.Session) *stepper {
	moment := func(text string) (uint64, error) { return history.ParseMoment(ctx, r, text) }
	return &stepper{Session: s, moment: moment, words: describe.New(), named: map[string]*journaletv1.PodRef{}}
}

// wordsBefore is how many records before the ones on the screen are put into words first: a description may depend on
// earlier records, such as the request that a call answers.
const wordsBefore = 256

// window returns the records from one number to another in words, without missing records.
func (s *stepper) window(from, to uint64) ([]*stepRecord, error) {
	s.words = describe.New()
	first, _ := s.Bounds()
	var all []*stepRecord
	for n := max(first, from-min(from, wordsBefore)); n <= to; n++ {
		x, err := s.read(n)
		if errors.Is(err, history.ErrNoRecord) {
			continue // lost
		}
		if err != nil {
			return nil, err
		}
		if n >= from {
			all = append(all, x)
		}
	}
	return all, nil
}

// stepEvent is one event of a record in words.
type stepEvent struct{ name, text string }

// stepRecord is one record as the screen shows it.
type stepRecord struct {
	rec    *journaletv1.Record
	who    string
	events []stepEvent
}

func (x *stepRecord) seq() uint64 { return x.rec.GetSeq() }

// read returns a record in words.
func (s *stepper) read(seq uint64) (*stepRecord, error) {
	rec, err := s.Record(seq)
	if err != nil {
		return nil, err
	}
	return s.describe(rec), nil
}

func (s *stepper) describe(rec *journaletv1.Record) *stepRecord {
	author := messages.RefOf(rec.GetActor())
	for _, e := range messages.Events(rec) {
		for _, uid := range history.PodsOf(author, e) {
			s.name(uid, rec.GetSeq())
		}
	}
	x := &stepRecord{rec: rec, who: s.words.Actor(author)}
	for i, e := range messages.Events(rec) {
		id := ""
		if step := rec.GetStep(); step != nil {
			id = messages.DecisionID(rec.GetEpoch(), step.GetCause(), author, int(step.GetOffset())+i)
		}
		x.events = append(x.events, stepEvent{messages.EventName(e), s.words.Describe(id, author, e)})
	}
	return x
}

// name gives the describer the name of a pod, which is looked up once, in the pod's state.
func (s *stepper) name(uid string, seq uint64) {
	ref, known := s.named[uid]
	if !known {
		if len(s.named) >= maxNamed {
			clear(s.named)
		}
		if m, err := s.stateOf(messages.Pod(uid), seq); err == nil {
			if p, ok := m.(*journaletv1.PodState); ok {
				ref = p.GetPod()
			}
		}
		s.named[uid] = ref
	}
	if ref != nil {
		s.words.Name(uid, ref.GetNamespace(), ref.GetName())
	}
}

// actors returns the actors that a record concerns: its author, then its receivers.
func (s *stepper) actors(rec *journaletv1.Record) ([]messages.Ref, error) {
	all, err := s.Concerned(rec.GetSeq())
	if err != nil {
		return nil, err
	}
	author := messages.RefOf(rec.GetActor())
	slices.SortStableFunc(all, func(a, b messages.Ref) int {
		switch author {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	return slices.DeleteFunc(all, func(r messages.Ref) bool { return r == messages.Agent }), nil // it has no state
}

// stateOf returns the state of an actor after a record, nil if it did not exist then.
func (s *stepper) stateOf(ref messages.Ref, seq uint64) (proto.Message, error) {
	st, err := s.State(ref, seq)
	if errors.Is(err, replay.ErrNoActor) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return st.Message, nil
}

// stateText returns the state of an actor after a record as YAML.
func (s *stepper) stateText(ref messages.Ref, seq uint64) (string, error) {
	m, err := s.stateOf(ref, seq)
	if err != nil || m == nil {
		return "", err
	}
	return yamlOf(m)
}

func yamlOf(m proto.Message) (string, error) {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err == nil {
		b, err = yaml.JSONToYAML(b)
	}
	return string(b), err
}

// changes returns what a record changed in the state of an actor, a line a field.
func (s *stepper) changes(ref messages.Ref, seq uint64) ([]replay.Field, error) {
	first, _ := s.Bounds()
	after, err := s.stateOf(ref, seq)
	if err != nil || after == nil {
		return nil, err
	}
	before := after.ProtoReflect().New().Interface()
	if seq > first {
		was, err := s.stateOf(ref, seq-1)
		if err != nil {
			return nil, err
		}
		if was != nil {
			before = was
		}
	}
	return replay.Differences(before, after), nil
}

// handledBy returns the step of an actor on a record that it has received, 0 if it took none.
func (s *stepper) handledBy(ref messages.Ref, seq uint64) uint64 {
	for n := s.Next(ref, seq); n > 0 && n < seq+wordsBefore; n = s.Next(ref, n) {
		rec, err := s.Record(n)
		if err == nil && messages.RefOf(rec.GetActor()) == ref && rec.GetStep().GetCause() == seq {
			return n
		}
	}
	return 0
}

// causes returns the records that led to one, the nearest first, up to a fact.
func (s *stepper) causes(rec *journaletv1.Record) ([]*stepRecord, error) {
	chain, err := s.Causes(rec.GetSeq())
	if err != nil {
		return nil, err
	}
	var all []*stepRecord
	for _, cause := range chain[1:] {
		all = append(all, s.describe(cause))
	}
	return all, nil
}

// replayStep shows the screen until the user leaves it. It begins at a moment, or at the end of the journal; with an
// actor at the last record until then that concerns it.
func (a *app) replayStep(ctx context.Context, r history.Reader, o replayOptions, args []string) error {
	if !a.out.terminal() {
		return usagef("--step needs a terminal; --to and --diff print states")
	}
	ref, err := a.replayActor(ctx, r, o)
	if err != nil {
		return err
	}
	moment := "0s"
	if len(args) > 0 {
		moment = args[0]
	}
	at, err := replayMoment(ctx, r, moment)
	if err != nil {
		return err
	}
	s, err := replay.Open(ctx, r, replay.Options{Progress: a.progress("read", "records")})
	a.endProgress()
	if err != nil {
		return err
	}
	first, last := s.Bounds()
	if first > last {
		return errors.New("the journal is empty: there is nothing to step through")
	}
	m := newStepModel(newStepper(ctx, r, s), a.out.colour())
	at = min(max(at, first), last)
	if ref != (messages.Ref{}) {
		m.actor = ref
		if before := s.Previous(ref, at+1); before > 0 {
			at = before
		}
	}
	if m.move(at); m.err != nil {
		return m.err
	}
	end, err := tea.NewProgram(m, tea.WithContext(ctx)).Run()
	if err != nil {
		return interrupted(ctx, err)
	}
	return end.(*stepModel).err
}
