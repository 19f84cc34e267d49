package events

import (
	"fmt"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/describe"
)

// outOfMemory derives the events of a kill for lack of memory. The Node's event is the kubelet's. The kubelet has no
// such event for a container: there the reason is the reason in the container's status.
func (d *deriver) outOfMemory(eventType string, k *journaletv1.OomKillObserved) {
	if k.GetScope() == journaletv1.OomScope_OOM_SCOPE_NODE {
		d.node(eventType, "SystemOOM",
			fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.GetProcess(), k.GetPid()))
	}
	cause := describe.OomCause(k.GetScope())
	d.add(k.GetUid(), k.GetContainer(), eventType, "OOMKilled", "%s, victim process: %s, pid: %d",
		strings.ToUpper(cause[:1])+cause[1:], k.GetProcess(), k.GetPid())
}
