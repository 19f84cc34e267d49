package timeline

import (
	"cmp"
	"fmt"

	"github.com/journalet/journalet/messages/journaletv1"
)

// agent folds the runs of the agent.
type agent struct {
	epoch  uint64
	bootID string
	node   string
}

// foldNode folds the events that are about the node as a whole.
func (b *builder) foldNode(ev *Event) {
	lane := b.node.lane("agent", "", "agent", rankAgent)
	switch k := ev.event.GetKind().(type) {
	case *journaletv1.Event_AgentStarted:
		b.agentStarted(ev, lane, k.AgentStarted)
	case *journaletv1.Event_AgentStopped:
		lane.set(ev, ClassDown, "stopped")
		b.agent.epoch = 0
	case *journaletv1.Event_JournalDamaged:
		b.lapse(ev, ev.Text)
	case *journaletv1.Event_RuntimeHealthChanged:
		h := k.RuntimeHealthChanged
		runtime := b.node.lane("runtime", "", "runtime", rankRuntime)
		name := cmp.Or(h.GetRuntimeName(), "runtime")
		switch {
		case h.GetRuntimeReady() && h.GetNetworkReady():
			runtime.set(ev, ClassOK, name+" ready")
		case h.GetRuntimeReady():
			runtime.set(ev, ClassRun, "network not ready")
		default:
			runtime.set(ev, ClassFail, name+" not ready")
		}
	}
}

func (b *builder) agentStarted(ev *Event, lane *Lane, s *journaletv1.AgentStarted) {
	b.agent.node = cmp.Or(s.GetConfig().GetNodeName(), b.agent.node)
	b.choice.node = b.agent.node
	if b.agent.epoch > 0 && b.last > 0 {
		how := "ended without a stop"
		if b.agent.bootID != "" && b.agent.bootID != s.GetBootId() {
			how = "the machine was restarted"
		}
		text := fmt.Sprintf("epoch %d %s, at some time after its last record #%d", b.agent.epoch, how, b.last)
		ended := b.previous()
		lane.close(ended)
		lane.set(ended, ClassDown, how)
		lane.open.Text = text
		ev.Alert, ev.Text = true, ev.Text+": "+text
	}
	lane.set(ev, ClassOK, fmt.Sprintf("epoch %d", s.GetEpoch()))
	b.agent.epoch, b.agent.bootID = s.GetEpoch(), s.GetBootId()
}

// quarantined folds a quarantine of an actor that is no pod of the picture, and its end.
func (b *builder) quarantined(ev *Event, kind, id string) {
	if kind == "pod" && b.pods[id] != nil {
		return // in the pod's own lane
	}
	if kind == "pod" && len(b.o.Pods) > 0 {
		return
	}
	lane := b.node.lane("quarantine", "", "quarantine "+kind+"/"+id, rankQuarantine)
	if len(b.o.Pods) > 0 {
		b.keep(b.node, ev)
	}
	if ev.event.GetQuarantined() != nil {
		lane.set(ev, ClassFail, "quarantined")
		return
	}
	lane.close(ev)
}
