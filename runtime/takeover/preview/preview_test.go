package preview_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/takeover/preview"
	"github.com/journalet/journalet/test/must"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

const web = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - {name: c, image: "example.org/web:1", volumeMounts: [{name: data, mountPath: /data}]}
  - {name: beside, image: "example.org/beside:1"}
`

// node is a node that a kubelet has, with a source of static pods.
type node struct {
	*testing.T
	*preview.Preview
}

func newNode(t *testing.T) *node {
	t.Helper()
	p, err := preview.New(now, &journaletv1.AgentStarted{
		Epoch: 1, AgentId: "a", BootId: "b",
		Config: &journaletv1.AgentConfig{
			NodeName: "n1", Sources: []string{messages.FileSource}, MaxPods: 110,
			Allocatable: &journaletv1.NodeCapacity{MilliCpu: 4000, MemoryBytes: 8 << 30, EphemeralStorageBytes: 1 << 40},
		},
		KubeletState: &journaletv1.KubeletState{},
	})
	must.OK(t, err)
	return &node{t, p}
}

// decode returns the pod of a manifest.
func (n *node) decode(text string) (*corev1.Pod, *journaletv1.ManifestFile) {
	n.Helper()
	pods, problems := manifest.Decode("/pods/web.yaml", []byte(text),
		manifest.Options{NodeName: "n1", Source: manifest.SourceFile})
	f := &journaletv1.ManifestFile{Path: "web.yaml", Unreadable: len(pods) == 0}
	for _, p := range problems {
		f.Problems = append(f.Problems, &journaletv1.ManifestProblem{
			Field: p.Field, Code: string(p.Code), Message: p.Message, Pod: p.Pod,
		})
	}
	if len(pods) == 0 {
		return nil, f
	}
	n.Prime(pods[0].Digest, pods[0].Pod)
	f.Pods = []*journaletv1.PodRef{{
		Uid: string(pods[0].Pod.UID), Namespace: "default", Name: pods[0].Pod.Name, Digest: pods[0].Digest,
	}}
	return pods[0].Pod, f
}

// reads has the source read files.
func (n *node) reads(files ...*journaletv1.ManifestFile) {
	n.Helper()
	must.OK(n.T, n.Fact(messages.Source(messages.FileSource), messages.NewEvent(&journaletv1.ManifestsRead{
		Source: messages.FileSource, Changed: files, Synced: true, HeldNamesStay: true,
	})))
}

// runs has the runtime show a pod that a kubelet started.
func (n *node) runs(p *corev1.Pod, change ...func(*journaletv1.PodObserved)) {
	n.Helper()
	began := timestamppb.New(now.Add(-time.Hour))
	o := &journaletv1.PodObserved{
		Uid: string(p.UID), ObservedAt: timestamppb.New(now), PodNamespace: "default", PodName: p.Name,
		Sandboxes: []*journaletv1.SandboxObservation{{
			Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY, CreatedAt: began, Ips: []string{"10.0.0.2"},
			Network: journaletv1.NetworkMode_NETWORK_MODE_POD,
		}},
	}
	for _, c := range p.Spec.Containers {
		o.Containers = append(o.Containers, &journaletv1.ContainerObservation{
			Id: c.Name, Name: c.Name, SandboxId: "s", State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
			CreatedAt: began, StartedAt: began, Image: c.Image, Hash: pod.ContainerHash(&c),
		})
	}
	slices.SortFunc(o.Containers, func(a, b *journaletv1.ContainerObservation) int {
		return strings.Compare(a.Name, b.Name)
	})
	for _, do := range change {
		do(o)
	}
	must.OK(n.T, n.Fact(messages.Pod(o.GetUid()), messages.NewEvent(o)))
}

// becomes checks what becomes of the pods, each as "name outcome, running: details".
func (n *node) becomes(safe bool, want ...string) {
	n.Helper()
	r, got := n.Report(), []string{}
	for _, p := range r.Pods {
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s, %d run: %s", p.Name, p.Outcome, p.Running,
			strings.Join(p.Details, "; ")), ": "))
	}
	if !slices.Equal(got, want) {
		n.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.Safe() != safe {
		n.Errorf("safe is %v", r.Safe())
	}
}

func TestRunningPodIsTakenOver(t *testing.T) {
	n := newNode(t)
	p, f := n.decode(web)
	n.runs(p)
	n.reads(f)
	n.becomes(true, "web-n1 taken over, 2 run")
}

func TestContainerOfAnotherImageRestarts(t *testing.T) {
	n := newNode(t)
	p, f := n.decode(web)
	n.runs(p, func(o *journaletv1.PodObserved) { o.Containers[1].Hash = "1" })
	n.reads(f)
	n.becomes(false, "web-n1 restarts, 2 run: container c: container definition changed")
}

func TestContainerThatHasEndedStartsByItsRestartPolicy(t *testing.T) {
	n := newNode(t)
	p, f := n.decode(web)
	n.runs(p, func(o *journaletv1.PodObserved) {
		o.Containers[1].State, o.Containers[1].ExitCode = journaletv1.ContainerState_CONTAINER_STATE_EXITED, 1
		o.Containers[1].FinishedAt = timestamppb.New(now.Add(-time.Hour / 2))
	})
	n.reads(f)
	n.becomes(true, "web-n1 taken over, 1 run: container c does not run: its restart policy decides")
}

func TestPodOfTheAPIServerThatIsNotSupportedIsLeftAlone(t *testing.T) {
	n := newNode(t)
	p, f := n.decode(web)
	n.runs(p)
	f.Pods[0].Api = &journaletv1.ApiPod{Unsupported: "spec.volumes[0].iscsi"}
	n.reads(f)
	n.becomes(true, "web-n1 left alone, 2 run: this version does not support spec.volumes[0].iscsi: nothing of the pod "+
		"is probed or started again")
}

func TestPodWithoutASandboxRestarts(t *testing.T) {
	n := newNode(t)
	p, f := n.decode(web)
	n.runs(p, func(o *journaletv1.PodObserved) {
		o.Sandboxes[0].State = journaletv1.SandboxState_SANDBOX_STATE_NOT_READY
	})
	n.reads(f)
	n.becomes(false, "web-n1 restarts, 2 run: "+
		"container beside: its sandbox is not the pod's; container c: its sandbox is not the pod's")
}

func TestPodThatNoSourceNamesEnds(t *testing.T) {
	n := newNode(t)
	p, _ := n.decode(web)
	n.runs(p)
	n.reads()
	n.becomes(false, "web-n1 ends, 2 run: no source names it: its containers end after a minute")
}

func TestChangedManifestIsAnotherPod(t *testing.T) {
	n := newNode(t)
	p, _ := n.decode(web)
	n.runs(p)
	_, f := n.decode(strings.Replace(web, "web:1", "web:2", 1))
	n.reads(f)
	r := n.Report()
	if len(r.Pods) != 2 || r.Counts()[preview.Ends] != 1 || r.Counts()[preview.Starts] != 1 || r.Safe() {
		t.Fatalf("got %+v", r.Pods)
	}
	for _, p := range r.Pods {
		if p.Outcome == preview.Ends && !strings.Contains(strings.Join(p.Details, ""), "another pod with its name") {
			t.Errorf("got %+v", p)
		}
	}
}

func TestStaticPodWithAProblemIsLeftAlone(t *testing.T) {
	n := newNode(t)
	p, _ := n.decode(web)
	n.runs(p)
	_, f := n.decode(strings.Replace(web, "volumes:", "nonsense: 1\n  volumes:", 1))
	n.reads(f)
	n.becomes(true, "web-n1 left alone, 2 run: its manifest has a problem: mend it, and the pod starts anew")
	if r := n.Report(); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "nonsense") {
		t.Errorf("got %q", r.Problems)
	}
}

func TestPodThatDoesNotFitEnds(t *testing.T) {
	n := newNode(t)
	p, f := n.decode(strings.Replace(web, `web:1"`, `web:1", resources: {requests: {cpu: 64}}`, 1))
	n.runs(p)
	n.reads(f)
	r := n.Report()
	if len(r.Pods) != 1 || r.Pods[0].Outcome != preview.Ends || !strings.Contains(r.Pods[0].Details[0], "cpu") {
		t.Errorf("got %+v", r.Pods)
	}
}

func TestPodThatDoesNotRunStarts(t *testing.T) {
	n := newNode(t)
	_, f := n.decode(web)
	n.reads(f)
	n.becomes(true, "web-n1 starts, 0 run")
}

func TestSourceThatIsNotReadIsNotSafe(t *testing.T) {
	n := newNode(t)
	if n.AllRead() || n.Report().Safe() || !slices.Equal(n.Report().Unread, []string{messages.FileSource}) {
		t.Errorf("got %+v", n.Report())
	}
}

func TestPodsOfAnAgentAreHandedBack(t *testing.T) {
	n := newNode(t)
	p, f := n.decode(web)
	_, idle := n.decode(strings.Replace(web, "{name: web}", "{name: idle}", 1))
	idle.Path = "idle.yaml"
	n.runs(p)
	n.reads(f, idle)
	uid := string(p.UID)
	for name, test := range map[string]struct {
		given     bool
		exclusive map[string]*journaletv1.GivenResources
		outcome   preview.Outcome
		says      string
	}{
		"with a UID of its own, or a kubelet's": {outcome: preview.Kept},
		"with the agent's UID": {given: true, outcome: preview.Restarts, says: "a kubelet gives it another UID: write uid: " +
			uid + " into the metadata of its manifest before"},
		"with exclusive CPUs": {exclusive: map[string]*journaletv1.GivenResources{uid: {}}, outcome: preview.Kept,
			says: "without --check"},
	} {
		t.Run(name, func(t *testing.T) {
			r := n.Handback(func(got string) bool { return got == uid && test.given }, test.exclusive)
			if len(r.Pods) != 1 || r.Pods[0].Outcome != test.outcome ||
				!strings.Contains(strings.Join(r.Pods[0].Details, ""), test.says) {
				t.Errorf("got %+v", r.Pods)
			}
			if r.Safe() != (test.outcome == preview.Kept) {
				t.Errorf("safe is %v", r.Safe())
			}
		})
	}
}

func TestWhatStateFilesLackIsDrained(t *testing.T) {
	r := preview.Report{Pods: []preview.Pod{
		{UID: "a", Outcome: preview.Kept, Details: []string{"before"}}, {UID: "b", Outcome: preview.Kept},
		{UID: "c", Outcome: preview.Restarts, Details: []string{"another UID"}},
	}}
	r.Lack(map[string]string{"b": "no answer"})
	got := fmt.Sprint(r.Pods[0].Outcome, r.Pods[0].Details, r.Pods[1].Outcome, r.Pods[1].Details, r.Pods[2].Details)
	if want := "kept[]drain[no answer: drain the pod before] [another UID]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
