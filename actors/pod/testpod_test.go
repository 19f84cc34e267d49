package pod

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// noon is the time of a testPod's first record.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// testPod is a pod of UID u to which a test plays source, node and runtime, one record a second.
type testPod struct {
	*Actor
	t         *testing.T
	seq       uint64
	at        time.Time
	manifests map[string]*corev1.Pod
	// decided is what followed from the last record.
	decided []*journaletv1.Event
	// ids are the ids of calls, by container; the last call without a container has the key "".
	ids map[string]string
}

// newTestPod returns a pod with the manifests that events may name by digest.
func newTestPod(t *testing.T, manifests map[string]*corev1.Pod) *testPod {
	return &testPod{Actor: New("u"), t: t, at: noon, manifests: manifests, ids: map[string]string{}}
}

// handle has the pod handle an event.
func (p *testPod) handle(event proto.Message) { p.t.Helper(); p.handleWith(event, "") }

// handleWith has the pod handle an event that comes with a manifest.
func (p *testPod) handleWith(event proto.Message, digest string) {
	p.t.Helper()
	p.seq, p.at, p.decided = p.seq+1, p.at.Add(time.Second), nil
	in := actors.Event{
		Seq: p.seq, Time: p.at, Author: p.self, Body: messages.NewEvent(event), Manifest: p.manifests[digest],
	}
	if err := p.Evolve(in); err != nil {
		p.t.Fatal(err)
	}
	step := actors.Input{Seq: p.seq, Time: p.at, Events: []actors.Event{in}}
	err := actors.Decide(p, step, func(d *journaletv1.Event) error {
		id := messages.DecisionID(1, p.seq, p.self, len(p.decided))
		p.decided = append(p.decided, d)
		if c := d.GetCallRequested(); c != nil {
			p.ids[c.GetStartContainer().GetContainer()+c.GetStopContainer().GetContainer()+
				c.GetUpdateContainer().GetContainer()+c.GetRunHook().GetContainer()] = id
		}
		return p.Evolve(actors.Event{ID: id, Seq: p.seq, Time: p.at, Author: p.self, Body: d})
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

const (
	add    = journaletv1.PodOperation_POD_OPERATION_ADD
	update = journaletv1.PodOperation_POD_OPERATION_UPDATE
	remove = journaletv1.PodOperation_POD_OPERATION_REMOVE
)

func updatedBy(source string, op journaletv1.PodOperation, digest string) *journaletv1.PodUpdated {
	return &journaletv1.PodUpdated{
		Operation: op, Source: source, Pod: &journaletv1.PodRef{Uid: "u", Name: "p", Digest: digest},
	}
}

func (p *testPod) updated(op journaletv1.PodOperation, digest string) {
	p.t.Helper()
	p.handleWith(updatedBy("file", op, digest), digest)
}

// admitted admits an incarnation, which need not be the pod's present one.
func (p *testPod) admitted(incarnation uint64) {
	p.t.Helper()
	p.handle(&journaletv1.AdmissionDecided{Uid: "u", Admitted: true, Incarnation: incarnation})
}

func (p *testPod) finished() {
	p.t.Helper()
	p.handle(&journaletv1.PodFinished{Uid: "u"})
}

// observed is an observation of these sandboxes at the time of the last record.
func (p *testPod) observed(sandboxes ...*journaletv1.SandboxObservation) *journaletv1.PodObserved {
	return &journaletv1.PodObserved{Uid: "u", ObservedAt: timestamppb.New(p.at), Sandboxes: sandboxes}
}

// listOf returns amounts of CPU and memory, each left out if empty.
func listOf(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if amount != "" {
			list[name] = resource.MustParse(amount)
		}
	}
	return list
}

func podOf(all ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: all}}
}
