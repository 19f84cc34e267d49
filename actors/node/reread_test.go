package node

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// rereading is a node of a cluster to which a test plays the API server.
type rereading struct {
	*Actor
	t       *testing.T
	decided []*journaletv1.Event
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rereading) handle(m proto.Message, manifest *corev1.Pod) {
	r.t.Helper()
	r.decided = nil
	e := actors.Event{Seq: 1, Time: time.Unix(1, 0), Body: messages.NewEvent(m), Manifest: manifest}
	must(r.t, r.Evolve(e))
	in := actors.Input{Seq: 1, Time: e.Time, Events: []actors.Event{e}}
	must(r.t, actors.Decide(r, in, func(d *journaletv1.Event) error {
		r.decided = append(r.decided, d)
		return r.Evolve(actors.Event{Seq: 1, Time: e.Time, Body: d})
	}))
}

// zoned is a pod for nodes of zone b.
func zoned() *corev1.Pod {
	p := &corev1.Pod{}
	p.Spec.NodeSelector = map[string]string{"zone": "b"}
	return p
}

func newRereading(t *testing.T, sources ...string) *rereading {
	r := &rereading{Actor: New(), t: t}
	r.handle(&journaletv1.AgentStarted{Config: &journaletv1.AgentConfig{Sources: sources, MaxPods: 10}}, nil)
	r.handle(&journaletv1.NodeObserved{Uid: "n", Labels: map[string]string{"zone": "a"}}, nil)
	r.handle(&journaletv1.AdmissionRequested{
		Uid: "u", Namespace: "d", Name: "p", Digest: "sha256:1", SharesName: true, Demand: &journaletv1.PodDemand{},
	}, zoned())
	return r
}

// The manifest of a pod that waits for the read is resolved after a snapshot, so that all is checked again.
func TestPodThatWaitsForTheNodeIsDecidedAfterASnapshot(t *testing.T) {
	for zone, admitted := range map[string]bool{"a": false, "b": true} {
		r := newRereading(t, messages.APISource)
		if len(r.decided) != 1 || r.decided[0].GetNodeReadRequested().GetRequestId() != 1 {
			t.Fatalf("decided %v", r.decided)
		}
		b, err := proto.Marshal(r.State())
		must(t, err)
		r.Actor = New()
		must(t, r.Restore(b))
		if all := r.Digests(); len(all) != 1 || all[0] != "sha256:1" {
			t.Fatalf("the state refers to %q", all)
		}
		r.Resolve("sha256:1", zoned())
		r.handle(&journaletv1.NodeObserved{Uid: "n", Labels: map[string]string{"zone": zone}, RequestId: 1}, nil)
		if len(r.decided) != 1 || r.decided[0].GetAdmissionDecided().GetAdmitted() != admitted {
			t.Errorf("zone %s: decided %v", zone, r.decided)
		}
		if len(r.Digests()) > 0 || len(r.Node().GetNodeReads()) > 0 || len(r.requested) > 0 {
			t.Errorf("zone %s: %v is kept", zone, r.Node().GetNodeReads())
		}
	}
}

// Without an API server there is nothing to read; what the watch shows is no answer; a pod that is gone needs none.
func TestNodeIsReadOnlyForPodsThatWait(t *testing.T) {
	r := newRereading(t, messages.FileSource)
	if len(r.decided) != 1 || r.decided[0].GetAdmissionDecided().GetReason() != reasonAffinity {
		t.Errorf("without an API server: %v", r.decided)
	}
	r = newRereading(t, messages.APISource)
	r.handle(&journaletv1.NodeObserved{Uid: "n", Labels: map[string]string{"zone": "b"}}, nil)
	if len(r.decided) != 0 {
		t.Errorf("what the watch has shown answers: %v", r.decided)
	}
	r.handle(&journaletv1.PodTerminated{Uid: "u"}, nil)
	r.handle(&journaletv1.NodeObserved{Uid: "n", RequestId: 1}, nil)
	if len(r.decided) != 0 || len(r.Node().GetNodeReads()) > 0 || len(r.requested) > 0 {
		t.Errorf("a pod that is gone: %v, kept %v", r.decided, r.Node().GetNodeReads())
	}
}
