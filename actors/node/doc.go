// Package node decides who may run on this node.
//
// It receives AgentStarted (what the node has), AdmissionAsked, PodTerminated (a pod's share is
// free) and PodFinished (its name is free), and decides AdmissionDecided and AdmissionDeferred. A
// pod is admitted once in its life: after a restart of the agent nobody is asked again. It does not
// look at what runs. Start with decide.go.
package node
