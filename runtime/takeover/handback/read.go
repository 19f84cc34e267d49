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
	pods, admitted := map[string]*journaletv1.PodState{}, map[string]*journaletv1.AdmittedPod{} // by UID
	for _, st := range states {
		switch m := st.Message.(type) {
		case *journaletv1.NodeState:
			if st.Quarantined != nil {
				return given, fmt.Errorf("the node's actor is quarantined, so what it has given to pods is not certain: "+
					"`journalet lift %s` while the agent runs", messages.Node)
			}
			given.Managers, given.Devices, admitted = m.GetConfig().GetManagers(), m.GetDevices(), m.GetPods()
			addPods(given.Pods, m)
		case *journaletv1.PodState:
			pods[st.Actor.ID] = m
			if claims := m.GetClaims().GetClaims(); len(claims) > 0 {
				given.Claims[st.Actor.ID] = claims
			}
		}
	}
	for uid, p := range given.Pods {
		addAnswers(p, pods[uid].GetDevices())
	}
	for uid, p := range admitted {
		if p.GetTerminated() || pods[uid] == nil {
			continue
		}
		if err := addResources(ctx, src, &given, uid, pods[uid]); err != nil {
			return given, err
		}
	}
	return given, nil
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
