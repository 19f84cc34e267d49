package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

// The bounds of the gate that the largest pod reaches; the gate itself says so if they are others.
const (
	largestContainers, largestEphemeral, largestReferences, largestHostIP = 80, 100, 1000, 64
	largestGates, largestPorts, largestName, largestImage                 = 100, 5800, 253, 1024
	longestMessage                                                        = 4096
)

// full returns a text of so many bytes that begins with a number.
func full(i, bytes int) string {
	text := fmt.Sprintf("n%d-", i)
	return text + strings.Repeat("x", bytes-len(text))
}

// largestPod is a pod with as much of everything as the gate lets through, with volumes or with ports: both at once are
// more memory than it does.
func largestPod(volumes, ports int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: full(0, largestName), Namespace: full(0, 63), UID: "largest", Generation: 1},
		Spec: corev1.PodSpec{NodeName: "n1", RestartPolicy: corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: new(int64)},
	}
	*p.Spec.TerminationGracePeriodSeconds = 5
	s := &p.Spec
	container := func(i int) corev1.Container {
		return corev1.Container{Name: full(i, 63), Image: full(i, largestImage), ImagePullPolicy: corev1.PullIfNotPresent}
	}
	always := corev1.ContainerRestartPolicyAlways
	for i := range largestContainers {
		c := container(i)
		if i%4 == 0 {
			c.RestartPolicy = &always
			s.InitContainers = append(s.InitContainers, c)
			continue
		}
		s.Containers = append(s.Containers, c)
	}
	for i := range ports {
		c := &s.Containers[i%len(s.Containers)]
		c.Ports = append(c.Ports, corev1.ContainerPort{
			ContainerPort: int32(i + 1), HostPort: int32(i + 1), HostIP: full(i, largestHostIP), Protocol: corev1.ProtocolSCTP,
		})
	}
	for i := range volumes {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: full(i, 63), VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: full(i, largestName)},
		}})
	}
	for i := range largestGates {
		s.ReadinessGates = append(s.ReadinessGates, corev1.PodReadinessGate{
			ConditionType: corev1.PodConditionType(full(i, 253) + "/" + full(i, 63)),
		})
	}
	return p
}

// addEphemeral adds as many ephemeral containers as the gate lets through.
func addEphemeral(p *corev1.Pod) {
	for i := range largestEphemeral {
		e := corev1.EphemeralContainer{TargetContainerName: p.Spec.Containers[0].Name}
		e.Name, e.Image, e.ImagePullPolicy = "e"+full(i, 62), full(i, largestImage), corev1.PullIfNotPresent
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, e)
	}
}

// readLargest has the API server show the pod.
func (s *Scenario) readLargest(t *testing.T, p *corev1.Pod, deleted bool) {
	t.Helper()
	if why := manifest.Gate(p); why != "" {
		t.Fatal(why)
	}
	parsed, err := manifest.FromAPI(p)
	must.OK(t, err)
	s.name(string(p.UID), "largest")
	s.g.names.manifests[parsed.Digest], s.g.names.canonical[parsed.Digest] = parsed.Pod, parsed.Canonical
	api := &journaletv1.ApiPod{Generation: p.Generation, Deleted: deleted}
	if deleted {
		api.DeletionGraceSeconds = 5
	}
	must.OK(t, s.g.readAPI(&journaletv1.ManifestFile{Path: string(p.UID), Pods: []*journaletv1.PodRef{{
		Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name, Digest: parsed.Digest, Api: api,
	}}}))
}

// endAll ends all containers, with messages as the PLEG records them, and has them observed.
func (s *Scenario) endAll(t *testing.T, uid string) {
	t.Helper()
	o := s.g.world.pods[uid]
	seen := &journaletv1.PodObserved{Uid: uid}
	for _, c := range o.containers {
		if c.GetState() != journaletv1.ContainerState_CONTAINER_STATE_EXITED {
			o.end(c.GetId(), 1, s.g.now)
		}
		c.Message = strings.Repeat("m", longestMessage)
		seen.Containers = append(seen.Containers, proto.CloneOf(c))
	}
	for _, x := range o.sandboxes {
		seen.Sandboxes = append(seen.Sandboxes, proto.CloneOf(x))
	}
	pleg.Fit(seen)
	for i, c := range seen.GetContainers() {
		o.containers[i].Message = c.GetMessage()
	}
	changed, err := s.g.inspect(uid)
	if must.OK(t, err); !changed {
		t.Error("nothing was observed")
	}
}

// largest plays the lifecycle of the largest pod.
type largest struct {
	*Scenario
	t              *testing.T
	pod            *corev1.Pod
	uid            string
	volumes, ports int
}

// play plays a world without faults until a condition holds.
func (l *largest) play(until func() bool) {
	l.t.Helper()
	for range maxSteps {
		if until() {
			return
		}
		moved, err := l.g.step()
		must.OK(l.t, err)
		if !moved {
			break
		}
	}
	if !until() {
		l.t.Fatalf("it does not end: %s", l.g.summary())
	}
}

// run plays until so many containers run.
func (l *largest) run(n int) {
	l.t.Helper()
	l.play(func() bool {
		alive := 0
		for _, c := range l.g.world.observed[l.uid].GetContainers() {
			if c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
				alive++
			}
		}
		return alive == n
	})
}

func startLargest(t *testing.T, volumes, ports int) *largest {
	t.Helper()
	l := &largest{New(), t, largestPod(volumes, ports), "largest", volumes, ports}
	_, err := l.start(&datadriven.TestData{Cmd: "start", CmdArgs: []datadriven.CmdArg{
		{Key: "sources", Vals: []string{messages.APISource}},
	}})
	must.OK(t, err)
	l.readLargest(t, l.pod, false)
	if volumes > 0 {
		l.play(func() bool { return l.g.pod(l.uid).Pod().GetObjects() != nil }) // all its Secrets are missing
	}
	for _, ref := range l.g.pod(l.uid).Pod().GetObjectRefs() {
		l.g.world.store[word(ref)] = "x"
	}
	l.run(largestContainers)
	return l
}

// check fails if a record is too large, or the pod is not the largest: its largest observation has that many bytes.
func (l *largest) check(observed int) {
	l.t.Helper()
	l.play(func() bool { return l.g.pod(l.uid) == nil })
	most := map[string]int{}
	for _, rec := range l.g.core.Records() {
		if size := proto.Size(rec) + messages.HashBytes + 64; size > messages.MaxRecordBytes {
			l.t.Errorf("record %d of %v has %d bytes", rec.GetSeq(), rec.GetActor(), size)
		}
		for _, e := range messages.Events(rec) {
			most[messages.EventName(e)] = max(most[messages.EventName(e)], proto.Size(e))
		}
	}
	if most["objects_set"] < l.volumes*largestName || most["pod_observed"] < observed ||
		most["admission_requested"] < l.ports*largestHostIP {
		l.t.Errorf("the pod is not the largest; the largest events in bytes: %v", most)
	}
}

func TestEachRecordOfTheLargestPodFits(t *testing.T) {
	l := startLargest(t, largestReferences, 0)
	for range 2 { // two instances each
		l.endAll(t, l.uid)
		l.run(largestContainers)
	}
	addEphemeral(l.pod)
	l.pod.Generation++
	l.readLargest(t, l.pod, false)
	l.run(largestContainers + largestEphemeral)
	l.endAll(t, l.uid)
	l.run(largestContainers)
	l.readLargest(t, l.pod, true)
	l.check(messages.MaxRecordBytes / 2)
}

func TestEachRecordOfTheLargestPodFitsWhenItIsRemoved(t *testing.T) {
	for volumes, ports := range map[int]int{largestReferences: 0, 0: largestPorts} {
		l := startLargest(t, volumes, ports)
		l.endAll(t, l.uid)
		must.OK(t, l.g.readAPI(&journaletv1.ManifestFile{Path: l.uid}))
		l.check(messages.MaxRecordBytes / 8) // one instance each, and no ephemeral container
	}
}
