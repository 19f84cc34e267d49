package oracle

import (
	"fmt"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/pods"
)

// call is a call to the runtime.
type call struct {
	// what is its kind.
	what string
	// container is the name of its container; "" for a sandbox's.
	container string
	// line is the whole call.
	line string
}

// aspect returns what keys of differences name.
func (d call) aspect() string {
	switch d.what {
	case runsSandbox:
		return sandboxesRun
	case executes:
		return itsHooks
	}
	return itsCalls
}

// Kinds of calls.
const (
	runsSandbox = "run sandbox"
	creates     = "create container"
	starts      = "start container"
	executes    = "exec"
	stopsIt     = "stop container"
	// stopsForGood is a stop after which nothing starts.
	stopsForGood = "stop container for good"
)

// callsOf returns the calls of a side to the runtime, in order, and the images that it pulled, sorted. It leaves out
// removals and the stops of sandboxes: the objects that are left are compared. An image counts once: containers that
// wait for one image share a pull, and the kubelet pulls it for each of them.
func callsOf(s side) (out []call, images []string) {
	name := func(id string) string { return id[:max(0, strings.LastIndexByte(id, '-'))] }
	for _, m := range s.fake.Calls() {
		switch q := m.(type) {
		case *runtimeapi.RunPodSandboxRequest:
			out = append(out, call{runsSandbox, "",
				fmt.Sprintf("%s, attempt %d", runsSandbox, q.GetConfig().GetMetadata().GetAttempt())})
		case *runtimeapi.PullImageRequest:
			images = append(images, q.GetImage().GetImage())
		case *runtimeapi.CreateContainerRequest:
			meta := q.GetConfig().GetMetadata()
			id := fakecri.ContainerID(meta.GetName(), meta.GetAttempt())
			out = append(out, call{creates, meta.GetName(), fmt.Sprintf("%s: %s in %s", creates, id, q.GetPodSandboxId())})
		case *runtimeapi.StartContainerRequest:
			out = append(out, call{starts, name(q.GetContainerId()), fmt.Sprintf("%s: %s", starts, q.GetContainerId())})
		case *runtimeapi.ExecSyncRequest:
			out = append(out, call{executes, name(q.GetContainerId()),
				fmt.Sprintf("%s: %s in %s", executes, strings.Join(q.GetCmd(), " "), q.GetContainerId())})
		case *runtimeapi.StopContainerRequest:
			out = append(out, call{stopsIt, name(q.GetContainerId()),
				fmt.Sprintf("%s: %s within %d s", stopsIt, q.GetContainerId(), q.GetTimeout())})
		}
	}
	slices.Sort(images)
	return out, slices.Compact(images)
}

// both are the two sides of a case of one pod.
type both struct {
	*testCase
	*world
	// key names a difference of a container, or with "" of the pod.
	key func(container, what string) string
	// again: the pod had passed its init containers, and some of them start again. removed: it is removed in the end.
	again, removed bool
}

// differsIn returns differs for what concerns a container, or with "" the pod as a whole.
func (b *both) differsIn(container string) func(what string, ours, theirs any) {
	return func(what string, ours, theirs any) { b.differs(b.key(container, what), ours, theirs) }
}

// compareCalls compares the calls of both sides: which calls, how often each, and their order where it matters. It
// reports whether they are equal.
func (b *both) compareCalls() bool {
	ours, pulled := callsOf(b.ours)
	theirs, pulledTheirs := callsOf(b.theirs)
	o, t := linesOf(ours), linesOf(theirs)
	same := true
	for _, one := range []struct{ some, than []call }{{ours, theirs}, {theirs, ours}} {
		seen := map[string]int{}
		for _, d := range one.some {
			seen[d.line]++
			have := 0
			for _, other := range one.than {
				if other.line == d.line {
					have++
				}
			}
			if seen[d.line] > have {
				same = false
				b.differsIn(d.container)(d.aspect(), o, t)
			}
		}
	}
	if !same {
		return false
	}
	b.differs("images pulled", pulled, pulledTheirs)
	ours, theirs = lastStops(ours, theirs), lastStops(theirs, ours) // neither changes its arguments
	for _, p := range b.projections() {
		o, t := linesOf(ours, p.keep), linesOf(theirs, p.keep)
		if o != t {
			same = false
			b.differs("order of "+p.what, o, t)
		}
	}
	return same
}

// lastStops marks the stops after the last start of both sides: the pod's end, where sidecars wait for the main
// containers.
func lastStops(calls, others []call) []call {
	after := func(list []call) []call {
		last := 0
		for i, d := range list {
			if d.what == creates || d.what == starts {
				last = i + 1
			}
		}
		return list[last:]
	}
	calls = slices.Clone(calls)
	end := after(calls)
	for i, d := range end {
		if d.what == stopsIt && slices.Contains(after(others), d) {
			end[i].what = stopsForGood
		}
	}
	return calls
}

// projection selects calls whose order matters.
type projection struct {
	what string
	keep func(call) bool
}

// projections returns the calls whose order is a decision. The order of two main containers is no decision: they are
// started and stopped at once. An ordinary init container and the sidecars are stopped at once, too.
func (b *both) projections() []projection {
	var out []projection
	startOrder := "a container's start and that of init containers"
	if b.again {
		startOrder += ", when one starts again"
	}
	inits, sidecars := map[string]bool{}, map[string]bool{}
	for _, c := range b.parsed.Pod.Spec.InitContainers {
		inits[c.Name], sidecars[c.Name] = true, isSidecar(&c)
	}
	grace := b.parsed.Pod.Spec.TerminationGracePeriodSeconds
	ordered := b.removed && (grace == nil || *grace > 0) // without grace the kubelet stops all at once
	starting := func(d call) bool {
		return d.what == creates || d.what == starts || d.what == executes && strings.Contains(d.line, pods.PostStart)
	}
	for _, c := range slices.Concat(b.parsed.Pod.Spec.InitContainers, b.parsed.Pod.Spec.Containers) {
		out = append(out,
			projection{"a container's calls and its sandbox's", func(d call) bool {
				return d.container == c.Name || d.what == runsSandbox
			}},
			projection{startOrder, func(d call) bool {
				return starting(d) && (d.container == c.Name || inits[d.container])
			}},
			projection{"a container's stop and that of sidecars", func(d call) bool {
				return ordered && (sidecars[c.Name] || !inits[c.Name]) && d.what == stopsForGood &&
					(d.container == c.Name || sidecars[d.container])
			}})
	}
	return out
}

// linesOf returns the calls that all of keep accept, a line each.
func linesOf(all []call, keep ...func(call) bool) string {
	var out []string
	for _, d := range all {
		if !slices.ContainsFunc(keep, func(f func(call) bool) bool { return !f(d) }) {
			out = append(out, d.line)
		}
	}
	return strings.Join(out, "\n")
}
