package start

import (
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// How a container's reason for waiting shows that it waits for an object (actors/pod).
const (
	configError  = "CreateContainerConfigError"
	volumePrefix = "MountVolume."
)

// objectsRead notes whether an object that the pod refers to is missing. Only the pod's status shows whether the pod
// waits for it: it may do without.
func (c *Collector) objectsRead(k *journaletv1.ObjectsRead) {
	if s := c.open[k.GetUid()]; s != nil {
		s.lacks = slices.ContainsFunc(k.GetObjects(), func(o *journaletv1.ObjectRead) bool {
			return o.GetState() != journaletv1.ObjectState_OBJECT_STATE_PRESENT
		})
	}
}

// awaitsObject folds why a container waits: it begins a phase of waiting for an object, gives it another message, or
// ends it. Containers that wait for the same volume share one phase.
func (s *Start) awaitsObject(when at, container string, w *journaletv1.ContainerWaiting) {
	inVolume := strings.HasPrefix(w.GetMessage(), volumePrefix)
	waits := s.lacks && (inVolume || w.GetReason() == configError && w.GetMessage() != "")
	if !waits || inVolume {
		s.close(when, s.find(Objects, container), Done)
	}
	if inVolume {
		container = ""
	}
	p := s.find(Objects, container)
	switch {
	case !waits:
		s.close(when, s.find(Objects, ""), Done)
	case p != nil:
		p.Message, s.LastSeq = w.GetMessage(), when.seq
	default:
		s.begin(when, Phase{Kind: Objects, Container: container, Reason: w.GetReason(), Message: w.GetMessage()})
	}
}
