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
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// podView is one pod as its actor shows it.
type podView struct {
	ref   messages.Ref
	pod   *corev1.Pod
	state podDetails
}

// podDetails is the part of a pod's state that its API object does not hold.
type podDetails struct {
	source, digest string
	stage          journaletv1.PodStage
	orphan         bool
	waits          []PodWait
	preemptedFor   *PodName
	// empty: the actor has just started and knows neither a manifest nor an observation.
	empty bool
}

// waitBudget is the rest of the time that one response may wait for actors that hang.
type waitBudget time.Duration

// next returns how long to wait for one more actor.
func (p waitBudget) next() time.Duration {
	return max(min(time.Duration(p), actorTimeout), minWait)
}

// inspectAs returns what read takes from an actor within what is left of the time; found is false for an actor of
// another kind. A channel hands the value over, not a variable: the actor may run the function after the wait has timed
// out.
func inspectAs[T any](ctx context.Context, s *server, ref messages.Ref, p *waitBudget,
	read func(actors.Decider) (T, bool),
) (value T, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.next())
	defer cancel()
	begun := time.Now()
	defer func() { *p -= waitBudget(time.Since(begun)) }()
	out := make(chan T, 1)
	err = s.Host.Inspect(ctx, ref, func(d actors.Decider) {
		if v, ok := read(d); ok {
			out <- v
		}
	})
	if err != nil {
		return value, false, err
	}
	select {
	case value = <-out:
		return value, true, nil
	default:
		return value, false, nil
	}
}

// inspect returns a pod's view.
func (s *server) inspect(ctx context.Context, ref messages.Ref, on pod.Node, p *waitBudget) (podView, error) {
	v, found, err := inspectAs(ctx, s, ref, p, func(d actors.Decider) (podView, bool) {
		a, ok := d.(*pod.Actor)
		if !ok {
			return podView{}, false
		}
		st := a.Pod()
		return podView{ref: ref, pod: a.View(on), state: podDetails{
			source: st.GetSource(), digest: st.GetPod().GetDigest(), stage: st.GetStage(), orphan: st.GetOrphan(),
			waits: podWaits(a.Waits()), preemptedFor: podNameOf(st.GetPreemptedFor()),
			empty: st.GetPod() == nil && len(st.GetObserved().GetSandboxes())+len(st.GetObserved().GetContainers()) == 0,
		}}, true
	})
	switch {
	case err != nil:
		return podView{ref: ref}, err
	case !found:
		return podView{ref: ref}, fmt.Errorf("%s is not a pod", ref)
	}
	return v, nil
}

// podNameOf returns nil for nil.
func podNameOf(p *journaletv1.PodRef) *PodName {
	if p == nil {
		return nil
	}
	return &PodName{Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUid()}
}

func podWaits(waits []pod.Wait) (out []PodWait) {
	for _, w := range waits {
		wait := PodWait{What: w.For, Since: w.Since}
		if w.Call != nil {
			wait.What = describe.Call(w.Call)
		}
		if id, err := messages.ParseDecisionID(w.IntentID); err == nil {
			wait.Cause = id.Cause
		}
		out = append(out, wait)
	}
	return out
}

// views returns all pods that have not finished, sorted by namespace and name. A pod whose actor does not respond in
// time is listed with the little that is known of it: this pod needs attention.
func (s *server) views(ctx context.Context) ([]podView, error) {
	on, quarantined := s.NodeView(), s.Host.Quarantines()
	var out []podView
	patience := waitBudget(actorsTimeout)
	for _, ref := range s.Host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD) {
		v, err := s.inspect(ctx, ref, on, &patience)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		q := quarantined[ref]
		switch {
		case err != nil && q == nil && !s.exists(ref):
			continue
		case err != nil:
			v.pod = unknownPod(ref, err)
		case (v.state.empty || v.state.stage == journaletv1.PodStage_POD_STAGE_FINISHED) && q == nil:
			continue
		}
		markQuarantine(v.pod, q)
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b podView) int {
		return cmp.Or(strings.Compare(a.pod.Namespace, b.pod.Namespace),
			strings.Compare(a.pod.Name, b.pod.Name), strings.Compare(a.ref.ID, b.ref.ID))
	})
	return out, nil
}

func (s *server) exists(ref messages.Ref) bool { return slices.Contains(s.Host.Refs(ref.Kind), ref) }

// unknownPod represents a pod whose actor did not respond.
func unknownPod(ref messages.Ref, err error) *corev1.Pod {
	p := &corev1.Pod{}
	p.APIVersion, p.Kind = "v1", "Pod"
	p.UID = types.UID(ref.ID)
	p.Status = corev1.PodStatus{
		Phase: corev1.PodUnknown, Reason: "NotResponding", Message: "the pod's actor did not respond: " + err.Error(),
	}
	return p
}

func markQuarantine(p *corev1.Pod, q *journaletv1.Quarantined) {
	if q == nil {
		return
	}
	p.Status.Reason = describe.ReasonQuarantined
	p.Status.Message = fmt.Sprintf("%s on record %d: %s",
		describe.DecisionError(q.GetCode()), q.GetCause(), q.GetMessage())
}

// whole gives a pod the texts that its actor does not have. It is for one pod at a time: all together may be large.
func (s *server) whole(ctx context.Context, v podView) {
	if s.Whole != nil {
		s.Whole(ctx, v.state.digest, v.pod)
	}
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
		s.whole(ctx, v)
		b, err := json.Marshal(v.pod)
		v.pod.Spec = corev1.PodSpec{} // it is in b
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

// findPod returns the pod with a name, namespace/name or UID, and all pods.
func (s *server) findPod(ctx context.Context, name, namespace string) (v podView, all []podView, err error) {
	if name == "" {
		return v, nil, badRequest("no pod given: want its name, namespace/name or UID")
	}
	if all, err = s.views(ctx); err != nil {
		return v, nil, err
	}
	var hits []podView
	for _, v := range all {
		if namespace != "" && v.pod.Namespace != namespace {
			continue
		}
		if v.ref.ID == name {
			return v, all, nil
		}
		if history.MatchesName(name, s.Node, v.pod.Namespace, v.pod.Name) {
			hits = append(hits, v)
		}
	}
	switch len(hits) {
	case 0:
		return v, nil, notFound("pod %q not found on node %s: `journalet pods` lists all pods", name, s.Node)
	case 1:
		return hits[0], all, nil
	}
	var which []string
	for _, h := range hits {
		which = append(which, fmt.Sprintf("%s/%s (UID %s)", h.pod.Namespace, h.pod.Name, h.ref.ID))
	}
	return v, nil, badRequest("%d pods match %q: %s; give namespace/name or the UID", len(hits), name,
		strings.Join(which, ", "))
}

func (s *server) getPod(ctx context.Context, q PodRequest) (*PodReport, error) {
	if q.Lines == 0 {
		q.Lines = defaultLines
	}
	if q.Lines > maxLines {
		return nil, badRequest("%d decisions requested, at most %d: read the rest with `journalet observe --pod`",
			q.Lines, maxLines)
	}
	v, all, err := s.findPod(ctx, q.Pod, q.Namespace)
	if err != nil {
		return nil, err
	}
	s.whole(ctx, v)
	r := &PodReport{
		Pod: v.pod, Source: v.state.source, Digest: v.state.digest, Stage: stageName(v.state.stage),
		Orphan: v.state.orphan, Waits: v.state.waits, PreemptedFor: v.state.preemptedFor,
		Decisions: []describe.Line{}, Events: []describe.PodEvent{},
	}
	if k := s.Host.Quarantines()[v.ref]; k != nil {
		r.Quarantine = &Quarantine{Cause: k.GetCause(), Code: describe.DecisionError(k.GetCode()), Message: k.GetMessage()}
	}
	if q.Lines > 0 {
		err = s.history(ctx, v, all, q.Lines, r)
	}
	return r, err
}

// stageName formats a stage. A pod that no source has claimed has none.
func stageName(s journaletv1.PodStage) string {
	if s == journaletv1.PodStage_POD_STAGE_UNSPECIFIED {
		return pod.ReasonOrphan
	}
	return describe.Enum(s.String(), "POD_STAGE_")
}
