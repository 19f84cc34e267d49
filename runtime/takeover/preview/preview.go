package preview

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// maxCalls bounds the calls that are under way at once: none waits for another one, as none ends that changes anything.
const maxCalls = 1 << 20

// Preview is a start of the agent that performs nothing. Its methods may be called concurrently, Report after the
// others.
type Preview struct {
	now time.Time

	mu        sync.Mutex
	core      *fold.Core
	read      int // records that were read
	manifests map[string]*corev1.Pod
	sources   map[string]bool // true: all of it was read
	problems  []string
	calls     map[string]*journaletv1.CallRequested // by intent id
	order     []string                              // intent ids
}

// New returns a preview of a start at a time. It records the start as the agent does, with as many calls at once
// as there are.
func New(now time.Time, started *journaletv1.AgentStarted) (*Preview, error) {
	p := &Preview{
		now: now, manifests: map[string]*corev1.Pod{}, sources: map[string]bool{},
		calls: map[string]*journaletv1.CallRequested{},
	}
	cfg := started.GetConfig()
	cfg.StartConcurrency, cfg.StopConcurrency, cfg.PullConcurrency = maxCalls, maxCalls, maxCalls
	for _, source := range cfg.GetSources() {
		p.sources[source] = false
	}
	p.core = fold.NewCore(fold.AllDeciders, p.manifest, started.GetEpoch())
	return p, p.Fact(messages.Agent, messages.NewEvent(started))
}

// Prime adds a manifest under its digest, before the fact that names it.
func (p *Preview) Prime(digest string, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.manifests[digest] = manifest.Light(pod)
}

// manifest returns a manifest; p.mu is held.
func (p *Preview) manifest(digest string) (*corev1.Pod, error) {
	if m := p.manifests[digest]; m != nil {
		return m, nil
	}
	return nil, errors.New("no such manifest")
}

// Fact adds what a driver of the start has learned. An error is the failure of an actor.
func (p *Preview) Fact(about messages.Ref, e *journaletv1.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if read := e.GetManifestsRead(); read != nil {
		p.noteRead(read)
	}
	return p.put(about, e)
}

// noteRead keeps what a source reports about its files.
func (p *Preview) noteRead(read *journaletv1.ManifestsRead) {
	p.sources[read.GetSource()] = p.sources[read.GetSource()] || read.GetSynced()
	for _, f := range read.GetChanged() {
		for _, problem := range f.GetProblems() {
			p.problems = append(p.problems, fmt.Sprintf("%s: %s: %s", f.GetPath(), problem.GetField(), problem.GetMessage()))
		}
	}
}

// AllRead reports whether all of each source was read.
func (p *Preview) AllRead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, read := range p.sources {
		if !read {
			return false
		}
	}
	return true
}

// put adds a record, and answers the calls that change nothing until no more follow. p.mu is held.
func (p *Preview) put(about messages.Ref, e *journaletv1.Event) error {
	if err := p.core.Put(p.now, about, e); err != nil {
		return err
	}
	for p.read < len(p.core.Records()) {
		rec := p.core.Records()[p.read]
		p.read++
		for i, e := range rec.GetStep().GetDecisions() {
			id := messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), messages.RefOf(rec.GetActor()), i)
			if err := p.decided(id, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// decided takes note of a decision.
func (p *Preview) decided(id string, e *journaletv1.Event) error {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_CallRequested:
		p.calls[id], p.order = k.CallRequested, append(p.order, id)
	case *journaletv1.Event_CallWithdrawn:
		delete(p.calls, k.CallWithdrawn.GetIntentId())
	case *journaletv1.Event_CallDispatched:
		return p.answer(k.CallDispatched.GetIntentId())
	}
	return nil
}

// answer ends a call that sets up what the pod has already, as its containers run: its volumes.
func (p *Preview) answer(id string) error {
	call := p.calls[id]
	if call.GetSetUpVolumes() == nil {
		return nil
	}
	delete(p.calls, id)
	pod := messages.Pod(call.GetPodUid())
	done := &journaletv1.CallFinished{IntentId: id, Requester: pod.String(), EndedAt: timestamppb.New(p.now)}
	for _, v := range call.GetSetUpVolumes().GetVolumes() {
		done.Volumes = append(done.Volumes, &journaletv1.VolumeOutcome{Name: v.GetName()})
	}
	return p.core.Put(p.now, pod, messages.NewEvent(done))
}
