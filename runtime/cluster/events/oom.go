package events

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// outOfMemory derives the events of a kill for lack of memory. That of the Node is the kubelet's, which has none of a
// container; its reason there is that of the container's status.
func (d *deriver) outOfMemory(k *journaletv1.OomKillObserved) {
	if k.GetScope() == journaletv1.OomScope_OOM_SCOPE_NODE {
		d.node(corev1.EventTypeWarning, "SystemOOM",
			fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.GetProcess(), k.GetPid()))
	}
	of := map[journaletv1.OomScope]string{
		journaletv1.OomScope_OOM_SCOPE_NODE:      "The machine is out of memory",
		journaletv1.OomScope_OOM_SCOPE_PODS:      "All pods together reached their memory limit",
		journaletv1.OomScope_OOM_SCOPE_POD:       "The pod reached its memory limit",
		journaletv1.OomScope_OOM_SCOPE_CONTAINER: "The container reached its memory limit",
	}[k.GetScope()]
	d.add(k.GetUid(), k.GetContainer(), corev1.EventTypeWarning, "OOMKilled", "%s, victim process: %s, pid: %d", of,
		k.GetProcess(), k.GetPid())
}
