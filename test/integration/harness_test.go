//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/node"
)

const (
	// settle bounds what takes a few sandboxes on a machine that other tests use as well.
	settle = 60 * time.Second
	// again is the pause between looks at what an event has told of already.
	again = 50 * time.Millisecond
)

// agent is an agent whose journal is followed.
type agent struct {
	*node.Agent
	journal  *journal // nil until it is followed
	watching context.CancelFunc
}

// newAgent prepares an agent of its own for a test; start runs it. At the end of the test its pods are gone.
func newAgent(t *testing.T, flags ...string) *agent {
	t.Helper()
	a := new(agent)
	a.Agent = setup.NewAgent(t, settle, a.tell, flags...)
	a.AtTheEnd(func() {
		if a.watching != nil {
			a.watching()
		}
	})
	return a
}

// started is a running agent with these manifests, by file name.
func started(t *testing.T, manifests map[string]string, flags ...string) *agent {
	t.Helper()
	a := newAgent(t, flags...)
	for name, text := range manifests {
		a.Put(name, text)
	}
	a.start()
	return a
}

// start runs the agent, waits until it answers, and follows its journal.
func (a *agent) start() {
	a.T.Helper()
	a.Start()
	if a.journal == nil {
		a.watch()
	}
}

// watch follows the journal of an agent that runs.
func (a *agent) watch() {
	a.T.Helper()
	a.Connect()
	ctx, cancel := context.WithCancel(context.Background())
	a.watching = cancel
	a.journal = follow(ctx, a.Client)
}

// forget ends the following of a journal that will not go on.
func (a *agent) forget() {
	a.watching()
	a.Disconnect()
	a.journal, a.watching = nil, nil
}

// gone waits until nothing of the agent's pods is on the runtime.
func (a *agent) gone() {
	a.T.Helper()
	node.Eventually(a.T, settle, "every pod to be gone", a.Gone)
}

// tell shows what there is to know after a failure.
func (a *agent) tell() {
	if a.journal != nil {
		a.T.Logf("the journal ends with:\n%s", a.journal.tail(60))
	}
}

// pods waits until the agent's pods, by name as in the manifest, are as wanted.
func (a *agent) pods(what string, wanted func(map[string]*corev1.Pod) bool) map[string]*corev1.Pod {
	a.T.Helper()
	return a.podsWithin(settle, what, wanted)
}

func (a *agent) podsWithin(within time.Duration, what string, wanted func(map[string]*corev1.Pod) bool) map[string]*corev1.Pod {
	a.T.Helper()
	deadline := time.After(within)
	for {
		_, changed := a.journal.seen()
		pods, err := a.list()
		if err == nil && wanted(pods) {
			return pods
		}
		select {
		case <-changed:
		case <-time.After(again): // an event is told to observers and to its actor at once: the actor may come second
		case <-deadline:
			a.T.Fatalf("not within %s: %s; the pods are (%v):\n%s", within, what, err, describe(pods))
		}
	}
}

// pod waits until one pod is as wanted.
func (a *agent) pod(name, what string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	a.T.Helper()
	return a.pods(name+" "+what, func(pods map[string]*corev1.Pod) bool { return pods[name] != nil && wanted(pods[name]) })[name]
}

// list are the pods now. Two of one name can be there while one ends: the one that lives counts.
func (a *agent) list() (map[string]*corev1.Pod, error) {
	all, err := a.Pods()
	if err != nil {
		return nil, err
	}
	out := map[string]*corev1.Pod{}
	for i := range all {
		p := &all[i]
		name := a.ShortName(p.Name)
		if old := out[name]; old == nil || old.DeletionTimestamp != nil {
			out[name] = p
		}
	}
	return out, nil
}

func (a *agent) podNow(name string) *corev1.Pod {
	a.T.Helper()
	pods, err := a.list()
	if err != nil {
		a.T.Fatal(err)
	}
	if pods[name] == nil {
		a.T.Fatalf("there is no pod %s:\n%s", name, describe(pods))
	}
	return pods[name]
}

func describe(pods map[string]*corev1.Pod) string {
	var b strings.Builder
	for name, p := range pods {
		fmt.Fprintf(&b, "  %s %s %s %q", name, p.UID, p.Status.Phase, p.Status.Reason)
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			fmt.Fprintf(&b, " [%s ready=%t restarts=%d state=%s last=%s]", c.Name, c.Ready, c.RestartCount, c.State.String(), c.LastTerminationState.String())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fingerprint is what a restart of the agent must leave as it is, by container id.
func (a *agent) fingerprint() map[string]string {
	a.T.Helper()
	out := map[string]string{}
	for _, c := range a.containers() {
		s := containerStatus(a.T, c.GetId())
		out[c.GetId()] = fmt.Sprintf("%s %s %d %d %d", s.GetState(), c.GetPodSandboxId(), s.GetStartedAt(), s.GetFinishedAt(), s.GetExitCode())
	}
	for _, s := range a.sandboxes() {
		out[s.GetId()] = s.GetState().String()
	}
	return out
}

// views is what pods report, one line each.
func (a *agent) views() []string {
	a.T.Helper()
	pods, err := a.list()
	if err != nil {
		a.T.Fatal(err)
	}
	var out []string
	for name, p := range pods {
		line := fmt.Sprintf("%s %s %s %s", name, p.UID, p.Status.Phase, p.Status.StartTime)
		for _, c := range p.Status.Conditions {
			line += fmt.Sprintf(" %s=%s@%s", c.Type, c.Status, c.LastTransitionTime.UTC())
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			line += fmt.Sprintf(" %s/%d/%s", c.ContainerID, c.RestartCount, c.State.String())
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
