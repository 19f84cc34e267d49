package image

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// play gives an actor one event, and returns the calls that it requests.
func play(t *testing.T, a *Actor, id string, body proto.Message) (calls []*journaletv1.CallRequested) {
	t.Helper()
	handle := func(e actors.Event) {
		if err := a.Evolve(e); err != nil {
			t.Fatal(err)
		}
	}
	e := actors.Event{ID: id, Time: at, Body: messages.NewEvent(body)}
	handle(e)
	n := 0
	a.Decide(actors.Input{Time: at, Events: []actors.Event{e}}, func(d *journaletv1.Event) {
		if d == nil {
			return
		}
		n++
		handle(actors.Event{ID: fmt.Sprint(id, "/", n), Author: messages.Image, Time: at, Body: d})
		if c := d.GetCallRequested(); c != nil {
			calls = append(calls, c)
		}
	})
	return calls
}

// A burst of pods alike has one pull, and it carries the pod that was first.
func TestPodsAlikeShareAPullThatCarriesTheFirst(t *testing.T) {
	a := New()
	var calls []*journaletv1.CallRequested
	for i := range 150 {
		uid := fmt.Sprintf("uid-%d", i)
		calls = append(calls, play(t, a, uid, &journaletv1.ImagePullRequested{
			Uid: uid, Image: "app:1", IfNotPresent: true,
			Pod: &journaletv1.PodOfPull{Uid: uid, Digest: "sha256:" + uid, Namespace: "shop"},
		})...)
	}
	if len(calls) != 1 {
		t.Fatalf("%d pulls", len(calls))
	}
	if p := calls[0].GetPullImage().GetPod(); p.GetUid() != "uid-0" || p.GetDigest() != "sha256:uid-0" {
		t.Errorf("the pull carries %v", p)
	}
}

// Each of these has a pull of its own beside all others.
func TestPodsThatARuntimeMayDistinguishShareNoPull(t *testing.T) {
	a := New()
	requested := map[string]*journaletv1.PodOfPull{
		"no pod: recorded by an older version": nil,
		"usual":                                {Namespace: "shop"},
		"another namespace":                    {Namespace: "bank"},
		"a runtime class":                      {Namespace: "shop", RuntimeClass: "kata"},
		"another runtime class":                {Namespace: "shop", RuntimeClass: "gvisor"},
		"alone":                                {Namespace: "shop", Alone: true},
		"alone, too":                           {Namespace: "shop", Alone: true},
		"alone, with a runtime class":          {Namespace: "shop", RuntimeClass: "kata", Alone: true},
	}
	for uid, p := range requested {
		if p != nil {
			p.Uid = uid
		}
		calls := play(t, a, uid, &journaletv1.ImagePullRequested{Uid: uid, Image: "app:1", Pod: p})
		if len(calls) != 1 || calls[0].GetPullImage().GetPod().GetUid() != p.GetUid() {
			t.Errorf("%s: %v", uid, calls)
		}
	}
	if len(a.state.GetPulls()) != len(requested) {
		t.Errorf("pulls under way: %d, want %d", len(a.state.GetPulls()), len(requested))
	}
	operator := &journaletv1.OperatorPullRequested{RequestId: "r", Image: "app:1"}
	if calls := play(t, a, "operator", operator); len(calls) != 0 {
		t.Errorf("an operator's pull does not join the one without a pod: %v", calls)
	}
}
