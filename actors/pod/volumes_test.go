package pod

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// projecting is a pod whose volume shows one label and the limits of its container.
func projecting(labels map[string]string, memory string) *corev1.Pod {
	p := podOf(corev1.Container{Name: "main", Image: "app:1", Resources: corev1.ResourceRequirements{
		Limits: listOf("", memory), Requests: listOf("100m", "1Mi"),
	}})
	p.Labels = labels
	p.Spec.Volumes = []corev1.Volume{{Name: "info", VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "app", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}},
			{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
			{Path: "memory", ResourceFieldRef: &corev1.ResourceFieldSelector{
				ContainerName: "main", Resource: "limits.memory",
			}},
		}},
	}}}
	return p
}

// setUps returns the volumes whose set-up followed from the last record, with their contents.
func (p *testPod) setUps() map[string]string {
	all := map[string]string{}
	for _, e := range p.decided {
		for _, v := range e.GetCallRequested().GetSetUpVolumes().GetVolumes() {
			all[v.GetName()] = v.GetContents()
		}
	}
	return all
}

func TestVolumeIsSetUpAgainOnlyForWhatItShows(t *testing.T) {
	p := newTestPod(t, map[string]*corev1.Pod{
		"one":     projecting(map[string]string{"app": "web"}, "64Mi"),
		"other":   projecting(map[string]string{"app": "web", "tier": "x"}, "64Mi"),
		"label":   projecting(map[string]string{"app": "api"}, "64Mi"),
		"resized": projecting(map[string]string{"app": "api"}, "128Mi"),
	})
	p.updated(add, "one")
	p.admitted(p.Pod().GetIncarnation())
	first := p.setUps()["info"]
	if first == "" {
		t.Fatalf("an admitted pod decided %v", p.decided)
	}
	p.handle(&journaletv1.CallFinished{IntentId: p.ids[""], Error: journaletv1.CallError_CALL_ERROR_UNSPECIFIED})
	for id := range p.Pod().GetCalls() {
		p.handle(&journaletv1.CallFinished{IntentId: id, SandboxId: "s"})
	}
	p.updated(update, "other")
	if again := p.setUps(); len(again) > 0 {
		t.Errorf("a label that the volume does not show led to %v", again)
	}
	p.updated(update, "label")
	second := p.setUps()["info"]
	if second == "" || second == first {
		t.Errorf("another label led to contents %q after %q", second, first)
	}
	for id := range p.Pod().GetCalls() {
		p.handle(&journaletv1.CallFinished{IntentId: id})
	}
	p.updated(update, "resized")
	if early := p.setUps(); len(early) > 0 {
		t.Errorf("resources that are not allocated led to %v", early)
	}
	p.handleWith(&journaletv1.ResizeDecided{
		Uid: "u", Digest: "resized", Allocated: true, RequestId: p.Pod().GetIncarnation(),
	}, "resized")
	if third := p.setUps()["info"]; third == "" || third == second {
		t.Errorf("other allocated resources led to contents %q after %q", third, second)
	}
}

func TestObjectsOfEarlierIncarnationAreForgotten(t *testing.T) {
	m := podOf(corev1.Container{Name: "main", Image: "app:1", EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}},
	}})
	p := newTestPod(t, map[string]*corev1.Pod{"one": m})
	p.updated(add, "one")
	p.admitted(p.Pod().GetIncarnation())
	if len(p.Pod().GetObjectRefs()) != 1 {
		t.Fatalf("the pod refers to %v", p.Pod().GetObjectRefs())
	}
	late := &journaletv1.ObjectsRead{Uid: "u", Objects: []*journaletv1.ObjectRead{
		{Ref: p.Pod().GetObjectRefs()[0], State: journaletv1.ObjectState_OBJECT_STATE_PRESENT, Digest: "d"},
		{Ref: &journaletv1.ObjectRef{Kind: journaletv1.ObjectKind_OBJECT_KIND_SECRET, Name: "other"}, Digest: "d"},
	}}
	p.handle(late)
	if got := p.Pod().GetObjects(); len(got) != 1 {
		t.Errorf("the pod keeps %v, and refers to one object", got)
	}
	p.finished()
	p.updated(add, "one")
	p.handle(late)
	if got := p.Pod().GetObjects(); len(got) > 0 {
		t.Errorf("a pod that is not admitted keeps %v", got)
	}
}

// cleans returns the id of the clean-up that followed from the last record, empty for none.
func (p *testPod) cleans() string {
	for _, e := range p.decided {
		if e.GetCallRequested().GetCleanPod().GetAll() {
			return p.ids[""]
		}
	}
	return ""
}

// The records of an incarnation were lost, and its directory was not.
func TestDirectoryOfAFinishedPodIsCleanedBeforeTheNextIncarnation(t *testing.T) {
	p := newIncarnations(t)
	p.updated(add, "d")
	p.finished()
	if !p.Gone(nil) {
		t.Error("a finished pod counts as left")
	}
	again := &journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
		Decisions: []*journaletv1.Event{messages.NewEvent(updatedBy("file", add, "d"))},
	}}}
	if p.Gone([]*journaletv1.Record{again}) {
		t.Error("a pod that is to be added again counts as gone")
	}
	p.handle(&journaletv1.PodDirectoryFound{Uid: "u"})
	clean := p.cleans()
	if clean == "" {
		t.Fatalf("its directory is found, and it is not cleaned: %v", p.decided)
	}
	p.updated(add, "d")
	if len(p.decided) > 0 {
		t.Errorf("while it is cleaned it is added, and does: %v", p.decided)
	}
	done := &journaletv1.CallFinished{IntentId: clean, Requester: p.self.String()}
	if !p.Gone([]*journaletv1.Record{{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(done)}}}) {
		t.Error("a pod whose clean-up has succeeded counts as left")
	}
	p.handle(done)
	if f := p.decided[len(p.decided)-1].GetPodFinished(); f == nil || f.GetOrphan() {
		t.Errorf("it is clean, and its source does not receive that: %v", p.decided)
	}
	p.handle(&journaletv1.PodDirectoryFound{Uid: "u"})
	if p.cleans() == "" {
		t.Errorf("it is found again, and was cleaned before: %v", p.decided)
	}
}

// The journal was lost, and the agent restarted before the runtime answered: the pod is rejected by then.
func TestDirectoryOfARejectedPodIsCleaned(t *testing.T) {
	m := podOf(corev1.Container{Name: "main", Image: "app:1"})
	m.Spec.Volumes = []corev1.Volume{{
		Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: new(corev1.EmptyDirVolumeSource)},
	}}
	p := newTestPod(t, map[string]*corev1.Pod{"d": m})
	p.updated(add, "d")
	p.handle(&journaletv1.AdmissionDecided{Uid: "u", Reason: "OutOfcpu", Incarnation: p.Pod().GetIncarnation()})
	if p.tearsDownNow() || p.OnNode() {
		t.Errorf("a rejected pod, of which nothing is on the node, decided %v", p.decided)
	}
	p.handle(&journaletv1.PodDirectoryFound{Uid: "u"})
	if !p.tearsDownNow() {
		t.Errorf("its directory is found, and stays: %v", p.decided)
	}
}

// tearsDownNow reports whether a clean-up of volumes followed from the last record.
func (p *testPod) tearsDownNow() bool {
	return slices.ContainsFunc(p.decided, func(e *journaletv1.Event) bool {
		return e.GetCallRequested().GetCleanPod() != nil
	})
}

// A certificate is waited for, and followed once it is there. What a signer or a start has taken away takes nothing
// from the volume.
func TestVolumeFollowsItsCertificate(t *testing.T) {
	m := podOf(corev1.Container{Name: "main", Image: "app:1"})
	source := &corev1.PodCertificateProjection{SignerName: "example.com/ca", KeyType: "ED25519"}
	m.Spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{PodCertificate: source}}}}}}
	p := newTestPod(t, map[string]*corev1.Pod{"one": m})
	p.updated(add, "one")
	p.admitted(p.Pod().GetIncarnation())
	refs := p.Pod().GetObjectRefs()
	if want := references.Certificate("tls", 0, source); len(refs) != 1 || !proto.Equal(refs[0], want) {
		t.Fatalf("the pod refers to %v", refs)
	}
	read := func(state journaletv1.ObjectState, digest, message string) string {
		p.handle(&journaletv1.ObjectsRead{Uid: "u", Objects: []*journaletv1.ObjectRead{
			{Ref: refs[0], State: state, Digest: digest, Message: message},
		}})
		decided := p.setUps()["tls"]
		for id, c := range p.Pod().GetCalls() {
			if c.GetRequest().GetSetUpVolumes() != nil {
				p.handle(&journaletv1.CallFinished{IntentId: id})
			}
		}
		return decided
	}
	const unreadable = journaletv1.ObjectState_OBJECT_STATE_UNREADABLE
	if got := read(unreadable, "", "credential bundle is not issued yet"); got != "" {
		t.Errorf("set up without a certificate: %s", got)
	}
	const want = `MountVolume.SetUp failed for volume "tls" : credential bundle is not issued yet`
	if got := p.derive().volumes[0].problem; got != want {
		t.Errorf("waits with %q, want %q", got, want)
	}
	first := read(journaletv1.ObjectState_OBJECT_STATE_PRESENT, "a", "")
	if first == "" {
		t.Fatal("an issued certificate is not set up")
	}
	if got := read(unreadable, "a", "PodCertificate expired"); got != "" {
		t.Errorf("a certificate that stays in use led to %s", got)
	}
	if got := read(journaletv1.ObjectState_OBJECT_STATE_PRESENT, "b", ""); got == "" || got == first {
		t.Errorf("another certificate led to %q after %q", got, first)
	}
}

func TestAPodBeyondTheAttachLimitIsRejectedInTheKubeletsWords(t *testing.T) {
	m := podOf(corev1.Container{Name: "main", Image: "app:1"})
	claim := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
	}
	m.Spec.Volumes = []corev1.Volume{claim("up"), claim("late"), claim("disk")}
	p := newTestPod(t, map[string]*corev1.Pod{"one": m})
	p.updated(add, "one")
	p.admitted(p.Pod().GetIncarnation())
	finish := func(limit bool) (terminating *journaletv1.PodTerminating) {
		for id, c := range p.Pod().GetCalls() {
			if c.GetRequest().GetSetUpVolumes() == nil {
				continue
			}
			p.handle(&journaletv1.CallFinished{IntentId: id, Error: journaletv1.CallError_CALL_ERROR_VOLUME,
				Volumes: []*journaletv1.VolumeOutcome{{Name: "up"}, {Name: "late", Message: "slow", Retryable: true},
					{Name: "disk", Message: "no room", Retryable: true, AttachLimitExceeded: limit}}})
			break
		}
		for _, e := range p.decided {
			if k := e.GetPodTerminating(); k != nil {
				terminating = k
			}
		}
		return terminating
	}
	if k := finish(false); k != nil {
		t.Errorf("a failure alone led to %v", k)
	}
	p.handle(&journaletv1.VolumesLost{Uid: "u", Names: []string{"up"}}) // to have them requested again
	const want = "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. " +
		"unmounted volumes=[disk late], unattached volumes=[disk], failed to process volumes=[]: context deadline exceeded"
	k := finish(true)
	if k.GetReason() != "VolumeAttachmentLimitExceeded" || k.GetMessage() != want || !k.GetFailed() {
		t.Errorf("got %v", k)
	}
}
