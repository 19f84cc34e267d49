package describe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// clusterEvent describes what the API server and the agent learn of each other.
func (d *Describer) clusterEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_NodeObserved:
		return nodeObserved(k.NodeObserved)
	case *journaletv1.Event_NodeReadRequested:
		return fmt.Sprintf("requested: read the Node before pod %s is rejected for its labels",
			d.podName(k.NodeReadRequested.GetUid()))
	case *journaletv1.Event_NodeRegistered:
		if k.NodeRegistered.GetCreated() {
			return "created the Node at the API server"
		}
		text := "took over the Node that the API server has"
		if o := k.NodeRegistered.GetOtherMachine(); o != nil {
			text += ", of " + otherMachine(o)
		}
		return text
	case *journaletv1.Event_ApiServerContact:
		if k.ApiServerContact.GetReachable() {
			if problem := k.ApiServerContact.GetMessage(); problem != "" {
				return "the API server answers, but " + problem
			}
			return "the API server answers"
		}
		return withMessage("the API server does not answer", k.ApiServerContact.GetMessage())
	case *journaletv1.Event_CertificateChanged:
		return certificateChanged(k.CertificateChanged)
	case *journaletv1.Event_ApiDeleteRequested:
		return fmt.Sprintf("requested: delete pod %s at the API server", d.podName(k.ApiDeleteRequested.GetUid()))
	case *journaletv1.Event_ApiDeleteFinished:
		return d.apiDeleteFinished(k.ApiDeleteFinished)
	}
	return ""
}

func nodeObserved(n *journaletv1.NodeObserved) string {
	if n.GetFailure() != "" {
		return "the Node could not be read: " + n.GetFailure()
	}
	if n.GetUid() == "" {
		return "the API server has no Node of this name"
	}
	s := fmt.Sprintf("the Node has %d labels", len(n.GetLabels()))
	for i, t := range n.GetTaints() {
		if i == 0 {
			s += " and the taints "
		} else {
			s += ", "
		}
		s += t.GetKey() + ":" + t.GetEffect()
	}
	if ips := slices.Concat(n.GetIps().GetInternal(), n.GetIps().GetExternal()); len(ips) > 0 {
		s += "; its addresses are " + strings.Join(ips, ", ")
	}
	if o := n.GetOtherMachine(); o != nil {
		s += "; " + otherMachine(o) + " reports itself as this Node, too"
	}
	return s
}

func otherMachine(m *journaletv1.OtherMachine) string {
	s := "another machine, " + m.GetMachineId()
	if a := m.GetAddress(); a != "" {
		s += " at " + a
	}
	return s + ","
}

func certificateChanged(c *journaletv1.CertificateChanged) string {
	what := "client certificate"
	if c.GetKind() == journaletv1.CertificateKind_CERTIFICATE_KIND_SERVING {
		what = "serving certificate"
	}
	if m := c.GetMessage(); m != "" {
		return withMessage("no new "+what, m)
	}
	if c.GetNotAfter() == nil {
		return what + " requested: " + c.GetRequest()
	}
	return fmt.Sprintf("using a %s that is valid until %s", what, c.GetNotAfter().AsTime().Format("2006-01-02 15:04:05"))
}

func (d *Describer) apiDeleteFinished(f *journaletv1.ApiDeleteFinished) string {
	name := d.podName(f.GetUid())
	switch {
	case f.GetMessage() != "":
		return withMessage(fmt.Sprintf("the API server did not delete pod %s", name), f.GetMessage())
	case f.GetAbsent():
		return fmt.Sprintf("the API server has no pod %s of this UID any more", name)
	}
	return fmt.Sprintf("deleted pod %s at the API server", name)
}
