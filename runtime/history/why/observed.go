package why

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
)

// What an observation shows that the one before it did not. The most important comes first: it is what a decision
// responds to, unless it names a container.
const (
	changeExited = iota
	changeVanished
	changeUnknown
	changeSandboxDied
	changeSandboxGone
	changeRunning
	changeCreated
	changeSandboxReady
	changeOther
)

// change is one difference between two observations of a pod.
type change struct {
	what      int
	container *journaletv1.ContainerObservation
	sandbox   *journaletv1.SandboxObservation
}

// changes returns what o shows and before does not, the most important first.
func changes(before, o *journaletv1.PodObserved) (all []change) {
	for _, c := range o.GetContainers() {
		if what := containerChange(describe.ContainerOf(before, c.GetId()), c); what != changeOther {
			all = append(all, change{what: what, container: c})
		}
	}
	for _, c := range before.GetContainers() {
		if describe.ContainerOf(o, c.GetId()) == nil {
			all = append(all, change{what: changeVanished, container: c})
		}
	}
	for _, s := range o.GetSandboxes() {
		was := describe.SandboxOf(before, s.GetId())
		switch ready := s.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY; {
		case was.GetState() == s.GetState():
		case ready:
			all = append(all, change{what: changeSandboxReady, sandbox: s})
		default:
			all = append(all, change{what: changeSandboxDied, sandbox: s})
		}
	}
	for _, s := range before.GetSandboxes() {
		if describe.SandboxOf(o, s.GetId()) == nil {
			all = append(all, change{what: changeSandboxGone, sandbox: s})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return a.what - b.what })
	return all
}

func containerChange(was, is *journaletv1.ContainerObservation) int {
	if was.GetState() == is.GetState() {
		return changeOther
	}
	switch is.GetState() {
	case journaletv1.ContainerState_CONTAINER_STATE_EXITED:
		return changeExited
	case journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN:
		return changeUnknown
	case journaletv1.ContainerState_CONTAINER_STATE_RUNNING:
		return changeRunning
	case journaletv1.ContainerState_CONTAINER_STATE_CREATED:
		return changeCreated
	}
	return changeOther
}

// container returns the container that a decision is about, "" for the pod as a whole.
func (e *Event) container() string {
	if e == nil {
		return ""
	}
	req := e.Body.GetCallRequested()
	for _, name := range []string{
		req.GetStartContainer().GetContainer(), req.GetStopContainer().GetContainer(), req.GetRunHook().GetContainer(),
		req.GetRemoveContainer().GetContainer(), req.GetUpdateContainer().GetContainer(),
		req.GetPreStartContainer().GetContainer(), e.text("container"),
	} {
		if name != "" {
			return name
		}
	}
	for _, prefix := range []string{"back-off ", "start ", "pre-stop "} { // timers (actors/pod)
		if name, ok := strings.CutPrefix(e.Body.GetTimerSet().GetName(), prefix); ok {
			return name
		}
	}
	return ""
}

// behindObservation returns the call whose effect an observation shows, or the end of the chain. next is what followed.
func (x *explainer) behindObservation(e Event, next *Event) (*Link, *End, error) {
	before, err := x.observedBefore(e)
	if err != nil {
		return nil, nil, err
	}
	all := changes(before.observation(), e.Body.GetPodObserved())
	name := next.container()
	if i := slices.IndexFunc(all, func(c change) bool { return name != "" && c.container.GetName() == name }); i > 0 {
		all = all[i:]
	}
	if len(all) == 0 {
		return nil, &End{Kind: Found, Seq: e.Seq}, nil
	}
	return x.behindChange(e, all[0])
}

// observedBefore returns the observation of the same pod before e, nil for none.
func (x *explainer) observedBefore(e Event) (*Event, error) {
	if e.Body.GetPodObserved().GetPodName() != "" {
		return nil, nil // only the first observation of a pod has its name
	}
	ref := messages.Pod(e.Body.GetPodObserved().GetUid())
	before, err := x.latest(e, ref, "", func(c *Event) bool { return c.Body.GetPodObserved() != nil })
	return before, ignoreLimit(err)
}

// observation returns the observation in e, nil for none.
func (e *Event) observation() *journaletv1.PodObserved {
	if e == nil {
		return nil
	}
	return e.Body.GetPodObserved()
}

func (x *explainer) behindChange(e Event, c change) (*Link, *End, error) {
	switch c.what {
	case changeRunning, changeCreated, changeSandboxReady:
		to, end, err := x.creator(e, c)
		start := to.call().GetStartContainer()
		if c.what == changeRunning && start.GetPart() == journaletv1.StartPart_START_PART_CREATE {
			to, err = x.startOf(e, c.container, to)
		}
		return link(Effect, to, end, err)
	case changeExited, changeVanished, changeSandboxDied, changeSandboxGone:
		call, err := x.endedBy(e, c)
		if call != nil || err != nil {
			return link(Effect, call, nil, err)
		}
		if c.what == changeExited {
			return nil, &End{Kind: Exit, Seq: e.Seq}, nil
		}
	}
	return nil, &End{Kind: Gone, Seq: e.Seq}, nil
}

// creator returns the call that created the object of a change. An object that carries the id of a call that does not
// create it is from a journal that was lost with its epochs: ids may have been assigned again.
func (x *explainer) creator(e Event, c change) (*Event, *End, error) {
	intent := c.container.GetIntentId() + c.sandbox.GetIntentId()
	found := &End{Kind: Found, Seq: e.Seq}
	if intent == "" {
		return nil, found, nil
	}
	to, end, err := x.decision(intent, e)
	start, run := to.call().GetStartContainer(), to.call().GetRunSandbox()
	switch {
	case err != nil || to == nil && end.Kind != Lost:
		return nil, end, err
	case start != nil && start.GetContainer() == c.container.GetName() && start.GetAttempt() == c.container.GetAttempt(),
		run != nil && c.sandbox != nil && run.GetAttempt() == c.sandbox.GetAttempt():
		return to, nil, nil
	}
	return nil, found, nil
}

// startOf returns the call that started a created container, or the call that created it.
func (x *explainer) startOf(e Event, c *journaletv1.ContainerObservation, created *Event) (*Event, error) {
	to, err := x.latest(e, e.Author, c.GetId(), func(k *Event) bool {
		return k.Body.GetCallRequested().GetStartContainer().GetContainerId() == c.GetId()
	})
	if to == nil {
		to = created
	}
	return to, ignoreLimit(err)
}

// endedBy returns the call of the agent that ended what a change shows to have ended, nil if it ended by itself: no
// such call was dispatched before its end.
func (x *explainer) endedBy(e Event, c change) (*Event, error) {
	id, sandbox := c.container.GetId(), c.container.GetSandboxId()+c.sandbox.GetId()
	from, err := x.createdAt(e, c)
	if err != nil {
		return nil, err
	}
	var found *Event
	_, err = x.j.backwardOf(podID(e.Author), from, e.Seq-1, func(h head, b []byte) bool {
		if h.author != e.Author || !h.step ||
			!(id != "" && bytes.Contains(b, []byte(id)) || sandbox != "" && bytes.Contains(b, []byte(sandbox))) {
			return false
		}
		rec, err := messages.Decode(b)
		if err != nil {
			return false
		}
		for _, k := range eventsOf(rec) {
			if ends(k.Body.GetCallRequested(), c, id, sandbox) && x.before(k, e, c.container) {
				found = &k
				return true
			}
		}
		return false
	})
	if errors.Is(err, errLimit) {
		err = nil
	}
	return found, err
}

// createdAt returns the first record with a call that may have ended the object of a change: the record of the call
// that created the object, else the journal's first record.
func (x *explainer) createdAt(e Event, c change) (uint64, error) {
	to, _, err := x.creator(e, c)
	if err != nil || to == nil {
		return x.j.first, err
	}
	return to.Seq, nil
}

// ends reports whether a call ends what a change is about.
func ends(req *journaletv1.CallRequested, c change, id, sandbox string) bool {
	if stopped := req.GetStopSandbox().GetSandboxId() + req.GetRemoveSandbox().GetSandboxId(); stopped != "" {
		return stopped == sandbox
	}
	return id != "" && (req.GetStopContainer().GetContainerId() == id ||
		c.what == changeVanished && req.GetRemoveContainer().GetContainerId() == id)
}

// before reports whether a call was dispatched before a container ended. A call that waited for its slot meanwhile
// ended nothing.
func (x *explainer) before(call, e Event, c *journaletv1.ContainerObservation) bool {
	var dispatched *Event
	err := x.j.forwardOf(podID(call.Author), call.Seq+1, e.Seq-1, func(h head, b []byte) bool {
		if h.author != messages.Runtime || !h.step || !bytes.Contains(b, []byte(call.ID)) {
			return false
		}
		rec, err := messages.Decode(b)
		if err != nil {
			return false
		}
		for _, d := range eventsOf(rec) {
			if d.Body.GetCallDispatched().GetIntentId() == call.ID {
				dispatched = &d
				return true
			}
		}
		return false
	})
	switch {
	case err != nil:
		return true // it cannot be ruled out
	case dispatched == nil:
		return false
	case c.GetState() != journaletv1.ContainerState_CONTAINER_STATE_EXITED || c.GetFinishedAt() == nil:
		return true
	}
	// With the clock set back between, the times say nothing.
	return e.Time.Before(dispatched.Time) || !c.GetFinishedAt().AsTime().Before(dispatched.Time)
}
