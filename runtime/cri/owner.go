package cri

// Owner says which objects of the runtime are this agent's. Others are never touched.
type Owner struct {
	// AgentID marks the objects of this agent, in annotation AnnotationAgent.
	AgentID string
	// Kubelet says that what a kubelet has created is this agent's, too: the agent is in its place (ADR 090).
	Kubelet bool
}

// Object is a sandbox or a container, as the runtime lists it or reports its status.
type Object interface {
	GetLabels() map[string]string
	GetAnnotations() map[string]string
}

// Owns reports whether an object is this agent's. A kubelet's has its labels, and the mark of no agent.
func (o Owner) Owns(x Object) bool {
	if id, marked := x.GetAnnotations()[AnnotationAgent]; marked {
		return id == o.AgentID
	}
	return o.Kubelet && x.GetLabels()[LabelPodUID] != ""
}
