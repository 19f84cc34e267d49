package pod

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

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
		Operation: op, Pod: &journaletv1.PodRef{Uid: "u", Name: "p", Digest: digest},
	}}}, digest)
}

const (
	add     = journaletv1.PodOperation_POD_OPERATION_ADD
	changed = journaletv1.PodOperation_POD_OPERATION_UPDATE
)

func (a *requester) done(of, sandbox, container string) {
	a.t.Helper()
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_CallFinished{CallFinished: &journaletv1.CallFinished{
		IntentId: a.ids[of], SandboxId: sandbox, ContainerId: container, EndedAt: timestamppb.New(a.at),
	}}}, "")
}

func podOf(all ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: all}}
}

func (a *requester) admitted() {
	a.t.Helper()
	a.see(&journaletv1.Event{Kind: &journaletv1.Event_AdmissionDecided{
		AdmissionDecided: &journaletv1.AdmissionDecided{Uid: "u", Admitted: true, Incarnation: a.Pod().GetIncarnation()},
	}}, "")
}
