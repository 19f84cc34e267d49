package query

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// ReasonQuarantined is the status reason of a pod whose actor is out of service.
const ReasonQuarantined = "Quarantined"

// seen is one pod's actor as it was at its turn.
type seen struct {
	ref    messages.Ref
	pod    *corev1.Pod
	state  podFacts
	failed error
}

// podFacts is what of a pod's state is told beside its view.
type podFacts struct {
	source, digest string
	stage          journaletv1.PodStage
	orphan         bool
	waits          []PodWait
	preemptedFor   *PodName
	// bare: the actor has handled nothing that tells of its pod; it was born a moment ago.
	bare bool
}

// patience is what is left of the time that one answer waits for actors that hang.
type patience time.Duration

// next is how long to wait for one more actor.
func (p patience) next() time.Duration {
	return max(min(time.Duration(p), actorTimeout), leastWait)
}

// look takes a pod's view. The channel, and not a variable, carries it out: the actor's turn may come
// after the wait for it was given up.
func (s *server) look(ctx context.Context, ref messages.Ref, on pod.Node, p *patience) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, p.next())
	defer cancel()
	begun := time.Now()
	defer func() { *p -= patience(time.Since(begun)) }()
	out := make(chan seen, 1)
	err := s.Host.Inspect(ctx, ref, func(d actors.Decider) {
		a, ok := d.(*pod.Actor)
		if !ok {
			return
		}
		st := a.Pod()
		out <- seen{ref: ref, pod: a.View(on), state: podFacts{
			source: st.GetSource(), digest: st.GetPod().GetDigest(), stage: st.GetStage(), orphan: st.GetOrphan(), waits: podWaits(a.Waits()),
			preemptedFor: podNameOf(st.GetPreemptedFor()),
			bare:         st.GetPod() == nil && len(st.GetObserved().GetSandboxes()) == 0 && len(st.GetObserved().GetContainers()) == 0,
		}}
	})
	if err != nil {
		return seen{ref: ref}, err
	}
	select {
	case v := <-out:
		return v, nil
	default:
		return seen{ref: ref}, fmt.Errorf("%s is no pod", ref)
	}
}

// podNameOf is nil for none.
func podNameOf(p *journaletv1.PodRef) *PodName {
	if p == nil {
		return nil
	}
	return &PodName{Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUid()}
}

func podWaits(waits []pod.Wait) (out []PodWait) {
	for _, w := range waits {
		told := PodWait{What: w.For, Since: w.Since}
		if w.Call != nil {
			told.What = Work(w.Call)
		}
		if id, err := messages.ParseDecisionID(w.IntentID); err == nil {
			told.Cause = id.Cause
		}
		out = append(out, told)
	}
	return out
}

// views are all pods, by namespace and name. One that has gone meanwhile is left out; one that does
// not come to its turn in time is shown with what is known of it, since it is the one to be seen.
func (s *server) views(ctx context.Context) ([]seen, error) {
	on, quarantined := s.NodeView(), s.Host.Quarantines()
	var out []seen
	patience := patience(actorsTimeout)
	for _, ref := range s.Host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD) {
		v, err := s.look(ctx, ref, on, &patience)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		q := quarantined[ref]
		switch {
		case err != nil && q == nil && !s.lives(ref):
			continue
		case err != nil:
			v.failed = err
			v.pod = unseen(ref, err)
		case (v.state.bare || v.state.stage == journaletv1.PodStage_POD_STAGE_FINISHED) && q == nil:
			continue
		}
		markQuarantine(v.pod, q)
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b seen) int {
		return cmp.Or(strings.Compare(a.pod.Namespace, b.pod.Namespace), strings.Compare(a.pod.Name, b.pod.Name), strings.Compare(a.ref.ID, b.ref.ID))
	})
	return out, nil
}

func (s *server) lives(ref messages.Ref) bool { return slices.Contains(s.Host.Refs(ref.Kind), ref) }

// unseen stands for a pod whose actor did not answer.
func unseen(ref messages.Ref, err error) *corev1.Pod {
	p := &corev1.Pod{}
	p.APIVersion, p.Kind = "v1", "Pod"
	p.UID = uid(ref.ID)
	p.Status = corev1.PodStatus{Phase: corev1.PodUnknown, Reason: "NotAnswering", Message: "the pod's actor did not answer: " + err.Error()}
	return p
}

func markQuarantine(p *corev1.Pod, q *journaletv1.Quarantined) {
	if q == nil {
		return
	}
	p.Status.Reason = ReasonQuarantined
	p.Status.Message = fmt.Sprintf("%s on record %d: %s", decisionError(q.GetCode()), q.GetCause(), q.GetMessage())
}

func (s *server) listPods(ctx context.Context, q ListRequest) (*rawList, error) {
	views, err := s.views(ctx)
	if err != nil {
		return nil, err
	}
	list := &rawList{APIVersion: "v1", Kind: "PodList", Items: []json.RawMessage{}}
	size, last, left := 0, "", int64(0)
	for _, v := range views {
		if q.Namespace != "" && v.pod.Namespace != q.Namespace {
			continue
		}
		key := v.pod.Namespace + "/" + v.pod.Name + "/" + v.ref.ID
		if key <= q.Continue {
			continue
		}
		if left > 0 {
			left++
			continue
		}
		b, err := json.Marshal(v.pod)
		if err != nil {
			return nil, fmt.Errorf("encode pod %s: %w", key, err)
		}
		if len(list.Items) > 0 && size+len(b) > maxListBytes {
			left = 1
			list.Metadata = rawListMeta{Continue: last, RemainingItemCount: &left}
			continue
		}
		size, last = size+len(b), key
		list.Items = append(list.Items, b)
	}
	return list, nil
}

// find is the pod of a name, namespace/name or UID, and all pods.
func (s *server) find(ctx context.Context, name, namespace string) (v seen, all []seen, err error) {
	if name == "" {
		return v, nil, badRequest("no pod is named: give its name, namespace/name or UID")
	}
	if all, err = s.views(ctx); err != nil {
		return v, nil, err
	}
	var hits []seen
	for _, v := range all {
		if namespace != "" && v.pod.Namespace != namespace {
			continue
		}
		if v.ref.ID == name {
			return v, all, nil
		}
		if isNamed(name, s.Node, v.pod.Namespace, v.pod.Name) {
			hits = append(hits, v)
		}
	}
	switch len(hits) {
	case 0:
		return v, nil, notFound("there is no pod %q on node %s: `journalet pods` lists what there is", name, s.Node)
	case 1:
		return hits[0], all, nil
	}
	var which []string
	for _, h := range hits {
		which = append(which, fmt.Sprintf("%s/%s (UID %s)", h.pod.Namespace, h.pod.Name, h.ref.ID))
	}
	return v, nil, badRequest("%d pods go by %q: %s; give namespace/name or the UID", len(hits), name, strings.Join(which, ", "))
}

func (s *server) getPod(ctx context.Context, q PodRequest) (*PodReport, error) {
	if q.Lines == 0 {
		q.Lines = defaultLines
	}
	if q.Lines > maxLines {
		return nil, badRequest("%d lines are wanted, and %d are the most: read the rest with `journalet observe --pod`", q.Lines, maxLines)
	}
	v, all, err := s.find(ctx, q.Pod, q.Namespace)
	if err != nil {
		return nil, err
	}
	r := &PodReport{
		Pod: v.pod, Source: v.state.source, Digest: v.state.digest, Orphan: v.state.orphan, Waits: v.state.waits, PreemptedFor: v.state.preemptedFor,
		Stage: stageName(v.state.stage), Decisions: []Line{}, Events: []PodEvent{},
	}
	if k := s.Host.Quarantines()[v.ref]; k != nil {
		r.Quarantine = &Quarantine{Cause: k.GetCause(), Code: decisionError(k.GetCode()), Message: k.GetMessage()}
	}
	if q.Lines > 0 {
		err = s.history(ctx, v, all, q.Lines, r)
	}
	return r, err
}

// stageName is a stage for people. A pod that no source has named has not begun any.
func stageName(s journaletv1.PodStage) string {
	if s == journaletv1.PodStage_POD_STAGE_UNSPECIFIED {
		return pod.ReasonOrphan
	}
	return enumName(s.String(), "POD_STAGE_")
}
