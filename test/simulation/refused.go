package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/source/manifest"
)

// Refused returns the plan of a node like Clustered's, whose agent makes way for one that knows nothing and refuses
// some of what runs: pods of the API server have a volume that it does not carry out, and manifests have a field that
// it does not know (ADR 112).
func Refused(seed uint64) *Plan {
	p := Clustered(seed)
	p.config.refused = true
	p.config.syncs = max(p.config.syncs, time.Second) // a journal without a sync of its own is not lost
	r := stream(seed, "plan of what is refused")
	p.Ops = append(p.Ops, Op{
		At: between(r, time.Minute, p.end), Kind: "an agent refuses what runs", pick: r.Uint64(),
		lasts: between(r, time.Millisecond, pick(r, 10*time.Second, time.Minute)),
	})
	p.inOrder()
	return p
}

// refusalOps is what happens to such a node, by kind.
var refusalOps = map[string]func(*sim, Op){"an agent refuses what runs": (*sim).refuseSome}

// refuseSome loses the journal, and has the next agent refuse a part of the pods.
func (s *sim) refuseSome(o Op) {
	if s.agent == nil {
		return
	}
	s.loseJournal(o)
	s.refusedRuns = map[string]bool{}
	r := stream(s.seed, "what is refused", fmt.Sprint(o.pick))
	for _, n := range s.api.names(ofNode) {
		if p := s.api.pods[n]; !hasEnded(p) && p.DeletionTimestamp == nil && chance(r, 2) {
			s.api.update(n, addDisk)
			s.refusedRuns[string(p.UID)] = false
		}
	}
	s.showRefused()
	for _, path := range s.directory.names() {
		if body := misspelt(s.directory.bodies[path]); body != nil && chance(r, 2) {
			s.directory.write(s.manifests, path, body)
		}
	}
}

// showRefused notes which pods the API server shows running, of those that the agent refuses: the next agent, which has
// no journal, knows only of these that they may run. The runtime may have lost a container since the last loss.
func (s *sim) showRefused() {
	if len(s.refusedRuns) == 0 {
		return
	}
	for _, p := range s.api.pods {
		if _, refused := s.refusedRuns[string(p.UID)]; refused {
			s.refusedRuns[string(p.UID)] = slices.ContainsFunc(p.Status.ContainerStatuses,
				func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
		}
	}
}

// addDisk gives a pod a volume of the kind iscsi.
func addDisk(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{
		ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.1", IQN: "iqn.2026-11.example:disk"}}})
}

// isUnsupported reports whether a pod has such a volume.
func isUnsupported(p *corev1.Pod) bool {
	return p != nil && manifest.UnsupportedOfAPI(&p.Spec) != ""
}

// misspelt returns the manifest of a pod with a field that does not exist; nil for what is no such manifest.
func misspelt(body []byte) []byte {
	var pod map[string]any
	if json.Unmarshal(body, &pod) != nil {
		return nil
	}
	spec, ok := pod["spec"].(map[string]any)
	if !ok {
		return nil
	}
	spec["containres"] = []any{}
	out, err := json.Marshal(pod)
	if err != nil {
		return nil
	}
	return out
}

// endRefusals deletes the pods that the agent refuses. The files that it refuses go with all that have problems.
func (s *sim) endRefusals() {
	if s.api == nil {
		return
	}
	for _, n := range s.api.names(ofNode) {
		if p := s.api.pods[n]; isUnsupported(p) {
			if err := s.api.deletePod(n, p.UID, -1); err != nil {
				s.judge.broken(noActorFails, string(p.UID), "it is not deleted: %v", err)
			}
		}
	}
}

// keptOut reports whether a file has a problem with a pod of this name.
func (s *sim) keptOut(name podName) bool {
	for _, path := range s.directory.names() {
		for _, p := range s.directory.files[path].GetProblems() {
			if p.GetPod()+"-"+nodeName == name.String() {
				return true
			}
		}
	}
	return false
}
