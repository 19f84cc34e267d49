package describe

import (
	"fmt"

	"github.com/journalet/journalet/messages/journaletv1"
)

// oomKill describes a process that was killed for lack of memory.
func (d *Describer) oomKill(k *journaletv1.OomKillObserved) string {
	s := OomKill(k)
	switch {
	case k.GetContainer() != "":
		s += " in container " + k.GetContainer()
	case k.GetUid() != "":
		s += " in pod " + d.podName(k.GetUid())
	}
	if n := int(k.GetOmitted()); n > 0 {
		s += fmt.Sprintf(" (%s not reported)", Count(n, "earlier kill"))
	}
	return s
}

// OomKill describes a process that was killed for lack of memory, without the container that it was in.
func OomKill(k *journaletv1.OomKillObserved) string {
	return fmt.Sprintf("%s: the kernel killed process %s (pid %d)", OomCause(k.GetScope()), clip(k.GetProcess()),
		k.GetPid())
}

// OomCause says whose memory ran out.
func OomCause(scope journaletv1.OomScope) string {
	switch scope {
	case journaletv1.OomScope_OOM_SCOPE_NODE:
		return "the machine is out of memory"
	case journaletv1.OomScope_OOM_SCOPE_PODS:
		return "all pods together reached their memory limit"
	case journaletv1.OomScope_OOM_SCOPE_POD:
		return "the pod reached its memory limit"
	case journaletv1.OomScope_OOM_SCOPE_CONTAINER:
		return "the container reached its memory limit"
	}
	return "memory ran out"
}
