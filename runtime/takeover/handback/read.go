package handback

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/runtime/kubeletstate"
)

// Read returns what the pods had been given when the journal ends. An error means that the journal cannot be read, that
// it lacks a manifest, or that its node is quarantined.
func Read(ctx context.Context, src history.Reader) (kubeletstate.Given, error) {
	states, err := replay.StatesAt(ctx, src, 0, replay.Options{})
	if err != nil {
		return kubeletstate.Given{}, err
	}
	given := kubeletstate.Given{
		Pods:      map[string]*journaletv1.KubeletPod{},
		Allocated: map[string]kubeletstate.PodResources{}, Actuated: map[string]kubeletstate.PodResources{},
		Claims: map[string][]*journaletv1.PodClaim{},
	}
	found := found{pods: map[string]*journaletv1.PodState{}}
	for _, st := range states {
		if err := found.add(&given, st); err != nil {
			return given, err
		}
	}
	for uid, p := range given.Pods {
		addAnswers(p, found.pods[uid].GetDevices())
	}
	for uid, p := range found.admitted {
		if p.GetTerminated() || found.pods[uid] == nil {
			continue
		}
		if err := addResources(ctx, src, &given, uid, found.pods[uid]); err != nil {
			return given, err
		}
	}
	return given, nil
}

// found is what a journal has of pods, by UID.
type found struct {
	pods     map[string]*journaletv1.PodState
	admitted map[string]*journaletv1.AdmittedPod
}

// add adds what the state of an actor has.
func (f *found) add(given *kubeletstate.Given, st *replay.State) error {
	switch m := st.Message.(type) {
	case *journaletv1.NodeState:
		if st.Quarantined != nil {
			return fmt.Errorf("the node's actor is quarantined, so what it has given to pods is not certain: "+
				"`journalet lift %s` while the agent runs", messages.Node)
		}
		given.Managers, given.Devices, f.admitted = m.GetConfig().GetManagers(), m.GetDevices(), m.GetPods()
		addPods(given.Pods, m)
	case *journaletv1.ImageState:
		given.Pulled = m.GetPulled()
		for _, p := range m.GetPulls() {
			given.Pulling = append(given.Pulling, p.GetImage())
		}
	case *journaletv1.PodState:
		f.pods[st.Actor.ID] = m
		if claims := m.GetClaims().GetClaims(); len(claims) > 0 {
			given.Claims[st.Actor.ID] = claims
		}
	}
	return nil
}

// addPods adds the pods that have exclusive resources, also the ones that an agent or a kubelet before had given
// something to and that are not decided yet.
func addPods(pods map[string]*journaletv1.KubeletPod, n *journaletv1.NodeState) {
	for uid, p := range n.GetKubeletPods() {
		pods[uid] = proto.CloneOf(p)
	}
	for uid, p := range n.GetPods() {
		if !p.GetTerminated() && len(p.GetExclusive())+len(p.GetDevices()) > 0 {
			pods[uid] = proto.CloneOf(&journaletv1.KubeletPod{Exclusive: p.GetExclusive(), Devices: p.GetDevices()})
		}
	}
}

// addAnswers adds what plugins answered for a pod's containers.
func addAnswers(p *journaletv1.KubeletPod, answers []*journaletv1.DeviceAllocation) {
	for _, d := range p.GetDevices() {
		for _, a := range answers {
			has := a.GetDevices()
			if has.GetContainer() == d.GetContainer() && has.GetResource() == d.GetResource() {
				d.Answer = has.GetAnswer()
			}
		}
	}
}
