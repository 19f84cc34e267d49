package scenario

import (
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// apiPod records that the API server has a pod of this UID, as the body and the arguments give it: deleted=(grace in
// seconds), phase=, generation=, claims=(name, ...), volumes that are claims of their names,
// resource-claims=(name, ...), ResourceClaims that its first container has, ready=(id, ...), containers that its status
// shows ready, and ephemeral=(name or name:target, ...), whose image is debug:1. The body is a pod in YAML, without
// apiVersion and kind.
func (s *Scenario) apiPod(d *datadriven.TestData) (string, error) {
	body := strings.ReplaceAll("\n"+d.Input, "\nmetadata:", "\napiVersion: v1\nkind: Pod\nmetadata:")
	node := s.started.GetConfig().GetNodeName()
	pods, problems := manifest.Decode("/pods/api", []byte(body), manifest.Options{
		NodeName: node, Source: manifest.SourceHTTP, Classes: s.classes,
	})
	if len(problems) > 0 && len(pods) == 0 {
		return "", problems[0]
	}
	pod := pods[0].Pod.DeepCopy()
	pod.Name, pod.UID = strings.TrimSuffix(pod.Name, "-"+node), types.UID(d.CmdArgs[0].Key)
	pod.Annotations = nil
	pod.Generation = int64(number(d, "generation", 1))
	if d.HasArg("deleted") {
		grace := int64(number(d, "deleted", 0))
		at := metav1.NewTime(begin.Add(time.Duration(grace) * time.Second))
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace
	}
	for _, e := range values(d, "ephemeral") {
		name, target, _ := strings.Cut(e, ":")
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
			TargetContainerName: target, EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: name, Image: "debug:1", ImagePullPolicy: corev1.PullIfNotPresent,
			},
		})
	}
	for _, name := range values(d, "claims") {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	addClaims(pod, values(d, "resource-claims"))
	p, err := manifest.FromAPI(pod)
	if err != nil {
		return "", err
	}
	unsupported := manifest.UnsupportedOfAPI(&pod.Spec)
	if v := arg(d, "unsupported", ""); v != "" {
		unsupported = v
	}
	s.name(string(pod.UID), pod.Name)
	s.g.names.manifests[p.Digest], s.g.names.canonical[p.Digest] = p.Pod, p.Canonical
	ref := &journaletv1.PodRef{
		Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Digest: p.Digest,
		Api: &journaletv1.ApiPod{
			Deleted: pod.DeletionTimestamp != nil, Generation: pod.Generation, Unsupported: unsupported,
			TerminalPhase:   terminalPhases[corev1.PodPhase(arg(d, "phase", ""))],
			ReadyContainers: values(d, "ready"), ShownRunning: d.HasArg("shown-running"),
		},
	}
	if ref.Api.Deleted {
		ref.Api.DeletionGraceSeconds = max(1, *pod.DeletionGracePeriodSeconds)
	}
	return "", s.read(messages.APISource, &journaletv1.ManifestFile{Path: ref.GetUid(), Pods: []*journaletv1.PodRef{ref}})
}

var terminalPhases = map[corev1.PodPhase]journaletv1.PodPhase{
	corev1.PodSucceeded: journaletv1.PodPhase_POD_PHASE_SUCCEEDED,
	corev1.PodFailed:    journaletv1.PodPhase_POD_PHASE_FAILED,
}

// apiGone records that the API server has a pod no more.
func (s *Scenario) apiGone(d *datadriven.TestData) (string, error) {
	return "", s.read(messages.APISource, &journaletv1.ManifestFile{Path: d.CmdArgs[0].Key})
}

// apiPhase records that the API server has the terminal phase of a pod.
func (s *Scenario) apiPhase(d *datadriven.TestData) (string, error) {
	phase := terminalPhases[corev1.PodPhase(arg(d, "phase", ""))]
	return "", s.moment(func() error { return s.g.apiPhase(d.CmdArgs[0].Key, phase) })
}

// apiDelete records the outcome of a deletion at the API server: success, or with message= a refusal.
func (s *Scenario) apiDelete(d *datadriven.TestData) (string, error) {
	uid := d.CmdArgs[0].Key
	return "", s.put(messages.Pod(uid), messages.NewEvent(&journaletv1.ApiDeleteFinished{
		Uid: uid, Absent: d.HasArg("absent"), Message: arg(d, "message", ""),
	}))
}

// node records what the Node object has: labels=(key=value, ...) and taints=(key:effect, ...). With read it is the
// answer to what was requested, with failure=text a failed answer.
func (s *Scenario) node(d *datadriven.TestData) (string, error) {
	n := &journaletv1.NodeObserved{Uid: "node-uid", Labels: map[string]string{}}
	for _, l := range values(d, "labels") {
		k, v, _ := strings.Cut(l, "=")
		n.Labels[k] = v
	}
	for _, t := range values(d, "taints") {
		k, effect, _ := strings.Cut(t, ":")
		n.Taints = append(n.Taints, &journaletv1.NodeTaint{Key: k, Effect: effect})
	}
	n.PodCidrs = values(d, "pod-cidrs")
	if d.HasArg("read") {
		n.RequestId = s.g.node().GetNodeReadId()
	}
	if failure := values(d, "failure"); len(failure) > 0 {
		n.RequestId, n.Failure = s.g.node().GetNodeReadId(), strings.Join(failure, " ")
	}
	return "", s.put(messages.Node, messages.NewEvent(n))
}

// serveNode has the API server answer what the Node has, if that was requested.
func (g *engine) serveNode() (bool, error) {
	for _, r := range g.node().GetNodeReads() {
		if !r.GetAnswered() {
			n := &journaletv1.NodeObserved{}
			if g.node().GetNode() != nil {
				n = proto.CloneOf(g.node().GetNode())
			}
			n.RequestId = g.node().GetNodeReadId()
			return true, g.put(messages.Node, messages.NewEvent(n))
		}
	}
	return false, nil
}

// apiPhase records that the API server has the phase of a pod.
func (g *engine) apiPhase(uid string, phase journaletv1.PodPhase) error {
	ref := proto.CloneOf(g.source(messages.APISource).GetPods()[uid].GetPod())
	ref.Api.TerminalPhase = phase
	return g.readAPI(&journaletv1.ManifestFile{Path: uid, Pods: []*journaletv1.PodRef{ref}})
}

func (g *engine) readAPI(f *journaletv1.ManifestFile) error {
	return g.put(messages.Source(messages.APISource), messages.NewEvent(&journaletv1.ManifestsRead{
		Source: messages.APISource, Changed: []*journaletv1.ManifestFile{f}, Synced: true,
	}))
}

// answerAsAPI does what an API server without faults does next: it takes a terminal phase, deletes a pod, and shows
// that it is gone.
func (g *engine) answerAsAPI() (bool, error) {
	for _, uid := range slices.Clone(g.names.uids) {
		a := g.pod(uid)
		if a == nil || a.Pod().GetPod().GetApi() == nil || g.source(messages.APISource).GetFiles()[uid] == nil {
			continue
		}
		s := a.Pod()
		ended := s.GetPhase() == journaletv1.PodPhase_POD_PHASE_SUCCEEDED ||
			s.GetPhase() == journaletv1.PodPhase_POD_PHASE_FAILED
		switch {
		case s.GetApiDeleted():
			return true, g.readAPI(&journaletv1.ManifestFile{Path: uid})
		case s.GetApiDeleteRequested():
			return true, g.put(messages.Pod(uid), messages.NewEvent(&journaletv1.ApiDeleteFinished{Uid: uid}))
		case ended && s.GetStage() >= journaletv1.PodStage_POD_STAGE_TERMINATED && s.GetPod().GetApi().GetTerminalPhase() !=
			s.GetPhase():
			return true, g.apiPhase(uid, s.GetPhase())
		}
	}
	return false, nil
}
