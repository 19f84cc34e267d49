package pods

import (
	corev1 "k8s.io/api/core/v1"
)

// History is the state of a pod on the runtime before both sides observe it.
type History struct {
	Sandboxes  []SandboxPast   `json:"sandboxes,omitempty"`
	Containers []ContainerPast `json:"containers,omitempty"`
	// Removed: the pod is removed from its source once both sides have settled.
	Removed bool `json:"removed,omitempty"`
}

// SandboxPast is an existing sandbox.
type SandboxPast struct {
	Attempt uint32 `json:"attempt,omitempty"`
	Ready   bool   `json:"ready,omitempty"`
}

// The CRI states of a container.
const (
	Created = "created"
	Running = "running"
	Exited  = "exited"
	Unknown = "unknown"
)

// Results of probes.
const (
	Success = "success"
	Failure = "failure"
)

// ContainerPast is an existing instance of a container.
type ContainerPast struct {
	Name    string `json:"name"`
	Attempt uint32 `json:"attempt,omitempty"`
	// Sandbox is the attempt of its sandbox.
	Sandbox  uint32 `json:"sandbox,omitempty"`
	State    string `json:"state"`
	ExitCode int32  `json:"exitCode,omitempty"`
	// EndedAgo is the time since its end, in seconds.
	EndedAgo int `json:"endedAgo,omitempty"`
	// OtherImage: it was created from another image than the pod's current one.
	OtherImage bool `json:"otherImage,omitempty"`
	// Results of its probes; empty if unknown.
	Liveness  string `json:"liveness,omitempty"`
	Readiness string `json:"readiness,omitempty"`
	Startup   string `json:"startup,omitempty"`
}

// History returns a history of a pod.
func (m *Generator) History(p *corev1.Pod) History {
	h := History{Removed: m.Chance(30)}
	for i := range m.N(3) {
		h.Sandboxes = append(h.Sandboxes, SandboxPast{Attempt: uint32(i)})
	}
	if len(h.Sandboxes) == 0 {
		return h
	}
	last := &h.Sandboxes[len(h.Sandboxes)-1]
	last.Ready = m.Chance(75)
	begun := m.N(len(p.Spec.InitContainers) + 2)
	for i := range p.Spec.InitContainers {
		if i < begun {
			h.Containers = append(h.Containers, m.past(&p.Spec.InitContainers[i], last, i+1 < begun)...)
		}
	}
	if len(p.Spec.InitContainers) > 0 && begun <= len(p.Spec.InitContainers) && m.Chance(80) {
		return h
	}
	for i := range p.Spec.Containers {
		h.Containers = append(h.Containers, m.past(&p.Spec.Containers[i], last, false)...)
	}
	return h
}

// past returns the instances of one container, the newest first. With done, it has probably exited with 0.
func (m *Generator) past(c *corev1.Container, in *SandboxPast, done bool) []ContainerPast {
	if m.Chance(20) {
		return nil
	}
	newest := ContainerPast{
		Name: c.Name, Attempt: uint32(m.N(4)), Sandbox: in.Attempt,
		State:      Pick(m, Running, Running, Running, Exited, Exited, Exited, Created, Unknown),
		OtherImage: m.Chance(8),
	}
	if done && m.Chance(70) {
		newest.State = Exited
	}
	if !in.Ready {
		newest.State = Exited
	}
	switch newest.State {
	case Exited:
		newest.ExitCode, newest.EndedAgo = Pick[int32](m, 0, 0, 1, 137, 42), Pick(m, 0, 1, 9, 11, 400)
		if done && m.Chance(80) {
			newest.ExitCode = 0
		}
	case Running:
		if c.StartupProbe != nil {
			newest.Startup = Pick(m, "", Success, Success, Failure)
		}
		started := c.StartupProbe == nil || newest.Startup == Success
		if c.LivenessProbe != nil && started {
			newest.Liveness = Pick(m, "", Success, Success, Failure)
		}
		if c.ReadinessProbe != nil && started {
			newest.Readiness = Pick(m, "", Success, Failure)
		}
	}
	out := []ContainerPast{newest}
	if newest.Attempt > 0 && m.Chance(70) {
		out = append(out, ContainerPast{Name: c.Name, Attempt: newest.Attempt - 1, Sandbox: in.Attempt, State: Exited,
			ExitCode: Pick[int32](m, 0, 1), EndedAgo: 500})
	}
	return out
}
