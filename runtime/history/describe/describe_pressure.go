package describe

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages/journaletv1"
)

// pressure describes what concerns a node that is short of something.
func (d *Describer) pressure(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_PressureObserved:
		return pressureObserved(k.PressureObserved)
	case *journaletv1.Event_NodePressureDecided:
		if len(k.NodePressureDecided.GetConditions()) == 0 {
			return "the node is under no pressure any more"
		}
		return "conditions of the node: " + strings.Join(k.NodePressureDecided.GetConditions(), ", ")
	case *journaletv1.Event_EvictionProgressed:
		return d.evictionProgressed(k.EvictionProgressed)
	case *journaletv1.Event_PodReclaimRequested:
		what := "volumes"
		if k.PodReclaimRequested.GetContainers() {
			what += " and dead containers"
		}
		return fmt.Sprintf("%s of pod %s are to be removed", what, d.podName(k.PodReclaimRequested.GetUid()))
	case *journaletv1.Event_PodReclaimed:
		return "what the pod held is removed"
	case *journaletv1.Event_ImageReclaimRequested:
		return "all unused images are to be removed"
	case *journaletv1.Event_ImagesReclaimed:
		n := int64(k.ImagesReclaimed.GetImages())
		return fmt.Sprintf("removed %d unused images of %s", n, quantity(k.ImagesReclaimed.GetBytes(), true))
	}
	return ""
}

func pressureObserved(o *journaletv1.PressureObserved) string {
	var out []string
	for _, t := range o.GetThresholds() {
		signal := pressure.Signal(t.GetSignal())
		one := fmt.Sprintf("%s is %s, below %s", signal, quantity(t.GetAvailable(), signal.Bytes()),
			quantity(t.GetThreshold(), signal.Bytes()))
		switch {
		case t.GetAvailable() >= t.GetThreshold() && t.GetReclaiming():
			one = fmt.Sprintf("%s is %s, little above %s", signal, quantity(t.GetAvailable(), signal.Bytes()),
				quantity(t.GetThreshold(), signal.Bytes()))
		case t.GetAvailable() >= t.GetThreshold():
			one = fmt.Sprintf("%s was below %s a moment ago", signal, quantity(t.GetThreshold(), signal.Bytes()))
		}
		if t.GetSoft() {
			one += " (soft)"
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return "no eviction threshold is met"
	}
	return strings.Join(out, "; ")
}

// quantity returns an amount of bytes or a number.
func quantity(n int64, bytes bool) string {
	if !bytes {
		return fmt.Sprint(n)
	}
	const unit = 1 << 20
	if n >= unit {
		n -= n % unit // nobody reads the rest
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}

func (d *Describer) evictionProgressed(p *journaletv1.EvictionProgressed) string {
	names := make([]string, len(p.GetWaitingFor()))
	for i, uid := range p.GetWaitingFor() {
		names[i] = d.podName(uid)
	}
	switch p.GetStage() {
	case journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMING:
		text := "reclaiming for " + p.GetSignal() + ": "
		if len(names) > 0 {
			text += "dead containers of " + list(names, 6)
		}
		if p.GetImages() && len(names) > 0 {
			text += ", and "
		}
		if p.GetImages() {
			text += "unused images"
		}
		return text
	case journaletv1.EvictionStage_EVICTION_STAGE_ENDING:
		return "a pod has to end for " + p.GetSignal() + ": " + list(names, 6)
	case journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMED:
		return "measuring whether enough was reclaimed"
	case journaletv1.EvictionStage_EVICTION_STAGE_SETTLING:
		return "measuring whether enough is available now; if not, again in 1s"
	case journaletv1.EvictionStage_EVICTION_STAGE_MEASURING:
		return "measuring whether enough is available now"
	default:
		if p.GetSignal() != "" {
			return "no pod is left to end for " + p.GetSignal()
		}
		return "nothing has to end any more"
	}
}
