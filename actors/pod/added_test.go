package pod

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// requester is a pod whose node and runtime a test plays, a record at a time.
type requester struct {
	*Actor
	t         *testing.T
	seq       uint64
	at        time.Time
	manifests map[string]*corev1.Pod
	// decided is what followed from the last record.
	decided []*journaletv1.Event
	// ids are the open calls by the container that they are about, or by nothing for the sandbox's.
	ids map[string]string
}

func newAsker(t *testing.T, manifests map[string]*corev1.Pod) *requester {
	return &requester{Actor: New("u"), t: t, at: time.Unix(1000, 0), manifests: manifests, ids: map[string]string{}}
}

// see has the pod take in a record, which names a manifest or none.
func (a *requester) see(e *journaletv1.Event, digest string) {
	a.t.Helper()
	a.seq++
	a.at = a.at.Add(time.Second)
	a.decided = nil
	if err := a.Evolve(actors.Event{Seq: a.seq, Time: a.at, Body: e, Manifest: a.manifests[digest]}); err != nil {
		a.t.Fatal(err)
	}
	in := actors.Input{Seq: a.seq, Time: a.at, Events: []actors.Event{{Seq: a.seq, Time: a.at, Body: e}}}
	if err := a.Decide(in, func(d *journaletv1.Event) error {
		id := fmt.Sprintf("%d.%d", a.seq, len(a.decided))
		a.decided = append(a.decided, d)
		if c := d.GetCallRequested(); c != nil {
			a.ids[c.GetStartContainer().GetContainer()+c.GetStopContainer().GetContainer()+c.GetUpdateContainer().GetContainer()] = id
		}
		return a.Evolve(actors.Event{ID: id, Seq: a.seq, Time: a.at, Body: d})
	}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *requester) updated(op journaletv1.PodOperation, digest string) {
	a.t.Helper()
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_PodUpdated{PodUpdated: &journaletv1.PodUpdated{
		Operation: op, Pod: &journaletv1.PodRef{Uid: "u", Name: "p", Digest: digest}, Resize: op != add, Additions: op != add,
	}}}, digest)
}

const (
	add     = journaletv1.PodOperation_POD_OPERATION_ADD
	changed = journaletv1.PodOperation_POD_OPERATION_UPDATE
)

func (a *requester) done(of, sandbox, container string) {
	a.t.Helper()
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_CallFinished{CallFinished: &journaletv1.CallFinished{
		IntentId: a.ids[of], SandboxId: sandbox, ContainerId: container,
	}}}, "")
}

func (a *requester) observed(containers ...*journaletv1.ContainerObservation) {
	a.t.Helper()
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_PodObserved{PodObserved: &journaletv1.PodObserved{
		Uid: "u", ObservedAt: timestamppb.New(a.at.Add(time.Second)), Containers: containers,
		Sandboxes: []*journaletv1.SandboxObservation{{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY}},
	}}}, "")
}

func (a *requester) container(id, name string, state journaletv1.ContainerState) *journaletv1.ContainerObservation {
	return &journaletv1.ContainerObservation{
		Id: id, Name: name, SandboxId: "s", State: state, StartedAt: timestamppb.New(a.at), FinishedAt: timestamppb.New(a.at),
		Hash: ContainerHash(&a.Manifest().Spec.Containers[slices.IndexFunc(a.Manifest().Spec.Containers, func(c corev1.Container) bool { return c.Name == name })]),
	}
}

// taking is a container that asks for CPU, and bounds it where it is to be Guaranteed.
func taking(name, cpu string, bounded bool) corev1.Container {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Mi")}
	c := corev1.Container{Name: name, Image: "app", Resources: corev1.ResourceRequirements{Requests: list}}
	if bounded {
		c.Resources.Limits = list
	}
	return c
}

// begin adds a pod whose only container runs.
func (a *requester) begin(digest, name string) *journaletv1.ContainerObservation {
	a.t.Helper()
	a.updated(add, digest)
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{
		AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u", Admitted: true, Incarnation: a.Pod().GetIncarnation()},
	}}, "")
	a.done("", "s", "")
	a.done(name, "s", name+"0")
	return a.container(name+"0", name, runningState)
}

const (
	runningState = journaletv1.ContainerState_CONTAINER_STATE_RUNNING
	exitedState  = journaletv1.ContainerState_CONTAINER_STATE_EXITED
)

func (a *requester) allocated(digest string, question uint64) {
	a.t.Helper()
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_ResizeDecided{
		ResizeDecided: &journaletv1.ResizeDecided{Uid: "u", Digest: digest, Allocated: true, RequestId: question},
	}}, digest)
}

func podOf(all ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: all}}
}

// TestWhatComesBackWhileTheNodeIsAskedWithoutItIsAskedFor: a container leaves the manifest, the node is asked about the pod without it, and it
// is back and started before the node has answered. The answer does not count it, so it is asked for by itself.
func TestWhatComesBackWhileTheNodeIsAskedWithoutItIsAskedFor(t *testing.T) {
	a := newAsker(t, map[string]*corev1.Pod{
		"both":    podOf(taking("main", "100m", false), taking("side", "200m", false)),
		"without": podOf(taking("main", "150m", false)),
		// Guaranteed: a resize to it is infeasible, and the question about the pod as a whole is taken back.
		"again": podOf(taking("main", "100m", true), taking("side", "200m", true)),
	})
	main := a.begin("both", "main")
	a.done("side", "s", "s0")
	side := a.container("s0", "side", runningState)
	a.observed(main, side)
	a.updated(changed, "without")
	a.done("side", "", "")
	side.State = exitedState
	a.observed(main, side)
	asked := a.Pod().GetResize().GetRequestedDigest()
	question := a.seq
	a.updated(changed, "again")
	if asked != "without" || a.Pod().GetResize().GetRequestedDigest() != "" || a.ids["side"] == "" {
		t.Fatalf("the node was asked about %q, then about %q", asked, a.Pod().GetResize().GetRequestedDigest())
	}
	a.done("side", "s", "s1")
	a.allocated("without", question)
	for _, d := range a.decided {
		if q := d.GetAdditionAsked(); q.GetDemand().GetMilliCpu() == 200 && q.GetDigest() == "again" {
			return
		}
	}
	t.Errorf("nothing asks for what side has: %v", a.decided)
}

// TestWhatWasGivenForAnOvertakenAnswerIsTakenBack: a container that asks for nothing runs when the node allocates what an earlier manifest gave
// it, and, while the runtime carries that out, what the wanted one gives: the limit that it has then goes with a restart.
func TestWhatWasGivenForAnOvertakenAnswerIsTakenBack(t *testing.T) {
	a := newAsker(t, map[string]*corev1.Pod{
		"old":  podOf(taking("main", "100m", false)),
		"more": podOf(taking("main", "100m", false), taking("side", "200m", true)),
		"none": podOf(taking("main", "150m", false), corev1.Container{Name: "side", Image: "app"}),
	})
	main := a.begin("old", "main")
	a.observed(main)
	a.updated(changed, "more")
	first := a.seq
	a.updated(changed, "none")
	second := a.seq
	a.done("side", "s", "s1")
	a.observed(main, a.container("s1", "side", runningState))
	a.allocated("more", first)
	update := a.ids["side"]
	a.allocated("none", second)
	a.ids["side"] = update
	a.done("side", "s", "s1")
	for _, d := range a.decided {
		if stop := d.GetCallRequested().GetStopContainer(); stop.GetContainerId() == "s1" && stop.GetReason() == reasonResize {
			return
		}
	}
	t.Errorf("nothing takes back what side was given: %v", a.decided)
}
