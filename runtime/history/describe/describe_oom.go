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
		s += fmt.Sprintf(" (%s not reported)", count(n, "earlier kill"))
	}
	return s
}

// OomKill describes a process that was killed for lack of memory, without the container that it was in.
func OomKill(k *journaletv1.OomKillObserved) string {
	whose := map[journaletv1.OomScope]string{
		journaletv1.OomScope_OOM_SCOPE_NODE:      "the machine is out of memory",
		journaletv1.OomScope_OOM_SCOPE_PODS:      "all pods together reached their memory limit",
		journaletv1.OomScope_OOM_SCOPE_POD:       "the pod reached its memory limit",
		journaletv1.OomScope_OOM_SCOPE_CONTAINER: "the container reached its memory limit",
	}[k.GetScope()]
	if whose == "" {
		whose = "memory ran out"
	}
	return fmt.Sprintf("%s: the kernel killed process %s (pid %d)", whose, clip(k.GetProcess()), k.GetPid())
}
