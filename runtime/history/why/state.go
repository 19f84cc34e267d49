package why

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// subject is the pod of a query: its state as the fold shows it, and its records.
type subject struct {
	*explainer
	uid   string
	actor *pod.Actor
	state *journaletv1.PodState
	log   *podLog
	// at is the record that the state contains all records up to.
	at          uint64
	quarantined *journaletv1.Quarantined
	// containers are the names of the pod's containers, init containers first, ephemeral ones last.
	containers []string
	inits      map[string]bool
	redacted   bool // manifests are missing
	// base is the state in the snapshot that the fold began with, nil for none.
	base *journaletv1.PodState
}

// newSubject folds a pod to the journal's end, from the newest snapshot that has it.
func (x *explainer) newSubject(uid string) (*subject, error) {
	s := &subject{explainer: x, uid: uid, at: x.j.last, inits: map[string]bool{}}
	ref := messages.Pod(uid)
	set, barrier := x.snapshots(x.j.last)
	if set[ref] == nil && barrier > 0 {
		// It came after the snapshots, or went before them.
		last, err := x.lastOf(uid, barrier)
		if err != nil {
			return nil, err
		}
		if last <= barrier {
			s.at = last
			set, barrier = x.snapshots(last)
		}
	}
	log, err := x.newPodLog(uid, barrier+1, s.at)
	if err != nil {
		return nil, err
	}
	s.log = log
	s.base = podState(set[ref])
	cell, err := s.fold(set, barrier, s.at)
	if err != nil {
		return nil, err
	}
	if cell == nil {
		gone := log.last(s.at+1, log.low, func(e *Event) bool { return e.Body.GetPodForgotten().GetUid() == uid })
		if gone != nil {
			cell, err = s.fold(set, barrier, gone.Seq-1)
		}
	}
	if cell == nil || err != nil {
		return nil, errors.Join(err, notFound("no record shows what pod %s was: it was named, and never there", uid))
	}
	s.actor, s.quarantined = cell.Decider.(*pod.Actor), cell.Quarantined
	s.state = s.actor.Pod()
	if s.state.GetIncarnation() > 0 {
		log.floor = max(log.floor, min(s.state.GetIncarnation(), log.low))
	}
	s.nameContainers()
	return s, nil
}

// fold folds the pod up to a record; nil if it is not there.
func (s *subject) fold(set map[messages.Ref]*journaletv1.Snapshot, barrier, to uint64) (*fold.Cell, error) {
	ref := messages.Pod(s.uid)
	f := fold.New(fold.AllDeciders, s.manifest)
	f.Mine, f.Barrier = func(actor messages.Ref) bool { return actor == ref }, barrier
	for _, actor := range []messages.Ref{messages.Agent, ref} {
		if snap := set[actor]; snap != nil {
			if err := f.Restore(snap); err != nil {
				return nil, fmt.Errorf("pod %s: %w", s.uid, err)
			}
		}
	}
	for _, rec := range s.log.records {
		if rec.GetSeq() <= to {
			f.Record(rec)
		}
	}
	_ = f.CatchUp(ref, to) // a record that cannot be folded has quarantined the actor
	return f.Cells[ref], nil
}

// lastOf returns the last record that concerns a pod, which is at most to unless the pod came after to.
func (x *explainer) lastOf(uid string, to uint64) (uint64, error) {
	last := uint64(0)
	needle := []byte(uid)
	concerns := func(h head, b []byte) bool {
		if h.author == messages.Pod(uid) || bytes.Contains(b, needle) {
			last = h.seq
			return true
		}
		return false
	}
	if found, err := x.j.backwardOf(uid, to+1, x.j.last, concerns); found || err != nil {
		return last, err
	}
	_, err := x.j.backwardOf(uid, x.j.first, to, concerns)
	return last, err
}

// manifest returns a manifest. One that is missing, as in a redacted bundle, is replaced by an empty one: what was
// decided is in the records.
func (s *subject) manifest(digest string) (*corev1.Pod, error) {
	if b, err := s.j.r.Manifest(s.j.ctx, digest); err == nil {
		if m, err := manifest.Load(b); err == nil {
			return m, nil
		}
	}
	s.redacted = true
	return &corev1.Pod{}, nil
}

// nameContainers lists the pod's containers, as the manifest has them, and containers that only the runtime has shown.
func (s *subject) nameContainers() {
	m := s.actor.Manifest()
	for c := range containers.All(m) {
		s.containers = append(s.containers, c.Name)
	}
	if m != nil {
		for i := range m.Spec.InitContainers {
			s.inits[m.Spec.InitContainers[i].Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.state.GetContainers())) {
		if !slices.Contains(s.containers, name) && (s.redacted || m == nil) {
			s.containers = append(s.containers, name)
		}
	}
}

// spec returns a container of the manifest, nil if it is not known.
func (s *subject) spec(name string) *corev1.Container {
	return containers.Find(s.actor.Manifest(), name)
}

// ephemeral reports whether a container of the manifest is an ephemeral one.
func (s *subject) ephemeral(name string) bool {
	return containers.Ephemeral(s.actor.Manifest(), name) != nil
}
