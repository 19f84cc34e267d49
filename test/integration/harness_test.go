//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/node"
)

const (
	// settle bounds the start or end of a few pods on a machine that runs other tests as well, and whose disk is busy.
	settle = 3 * time.Minute
	// again is the time between two polls of the pods.
	again = 50 * time.Millisecond
)

// agent is an agent whose journal is followed.
type agent struct {
	*node.Agent
	journal  *journal // nil until it is followed
	watching context.CancelFunc
}

// newAgent prepares an agent for one test; start runs it. The end of the test removes its pods.
func newAgent(t *testing.T, flags ...string) *agent {
	t.Helper()
	a := new(agent)
	a.Agent = setup.NewAgent(t, settle, a.logJournal, flags...)
	a.AtTheEnd(func() {
		if a.watching != nil {
			a.watching()
		}
	})
	return a
}

// started runs an agent with these manifests, by file name.
func started(t *testing.T, manifests map[string]string, flags ...string) *agent {
	t.Helper()
	a := newAgent(t, flags...)
	for name, text := range manifests {
		a.Put(name, text)
	}
	a.start()
	return a
}

// start runs the agent, waits until it serves requests, and follows its journal.
func (a *agent) start() {
	a.T.Helper()
	a.Start()
	if a.journal == nil {
		a.watch()
	}
}

// crash kills the agent and starts it again.
func (a *agent) crash() {
	a.T.Helper()
	a.Kill()
	a.start()
}

// watch follows the journal of a running agent.
func (a *agent) watch() {
	a.T.Helper()
	a.Connect()
	ctx, cancel := context.WithCancel(context.Background())
	a.watching = cancel
	a.journal = follow(ctx, a.Client)
}

// loseJournal kills the agent and removes its journal.
func (a *agent) loseJournal() {
	a.T.Helper()
	a.Kill()
	a.watching()
	a.Disconnect()
	a.journal, a.watching = nil, nil
	if err := os.RemoveAll(filepath.Join(a.Root, "bus")); err != nil {
		a.T.Fatal(err)
	}
}

// put writes a pod's manifest to a file with the pod's name.
func (a *agent) put(p *corev1.Pod) {
	a.T.Helper()
	a.Put(p.Name+".yaml", manifest(p))
}

// gone waits until nothing of the agent's pods is on the runtime.
func (a *agent) gone() {
	a.T.Helper()
	eventually(a.T, settle, "every pod to be gone", a.Gone)
	a.quiet()
}

// quiet waits until the observer, which is a moment behind the agent, has received all that the journal holds by now.
func (a *agent) quiet() {
	a.T.Helper()
	var last uint64
	eventually(a.T, settle, "the agent to report its newest record", func() error {
		// Not the test's context: it has ended during the test's clean-up.
		ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
		defer cancel()
		info, err := a.Client.Info(ctx)
		if err == nil {
			last = info.JournalLast
		}
		return err
	})
	a.journal.reaches(a.T, last)
}

// logJournal logs the end of the journal, after a failure.
func (a *agent) logJournal() {
	if a.journal != nil {
		a.T.Logf("the journal ends with:\n%s", a.journal.tail(60))
	}
}

// pods waits until the agent's pods, by name as in the manifest, fulfil a condition, and until the observer has
// received what made them fulfil it.
func (a *agent) pods(what string, wanted func(map[string]*corev1.Pod) bool) map[string]*corev1.Pod {
	a.T.Helper()
	deadline := time.After(settle)
	for {
		_, changed := a.journal.seen()
		pods, err := a.list()
		if err == nil && wanted(pods) {
			a.quiet()
			return pods
		}
		select {
		case <-changed:
		case <-time.After(again): // observers may receive an event before its actor has folded it
		case <-deadline:
			a.T.Fatalf("not within %s: %s; the pods are (%v):\n%s", settle, what, err, describe(pods))
		}
	}
}

// pod waits until one pod fulfils a condition.
func (a *agent) pod(name, what string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	a.T.Helper()
	return a.pods(name+" "+what, func(pods map[string]*corev1.Pod) bool {
		return pods[name] != nil && wanted(pods[name])
	})[name]
}

// list returns the pods. While one of two pods of one name terminates, it returns the other one.
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

// podNow returns a pod as the agent reports it, once the observer has received what that follows from.
func (a *agent) podNow(name string) *corev1.Pod {
	a.T.Helper()
	pods, err := a.list()
	if err != nil {
		a.T.Fatal(err)
	}
	a.quiet()
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
			fmt.Fprintf(&b, " [%s ready=%t restarts=%d state=%s last=%s]",
				c.Name, c.Ready, c.RestartCount, c.State.String(), c.LastTerminationState.String())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fingerprint describes the runtime's objects, by id: what a restart of the agent must not change.
func (a *agent) fingerprint() map[string]string {
	a.T.Helper()
	out := map[string]string{}
	for _, c := range a.containers() {
		s := containerStatus(a.T, c.GetId())
		out[c.GetId()] = fmt.Sprintf("%s %s %d %d %d",
			s.GetState(), c.GetPodSandboxId(), s.GetStartedAt(), s.GetFinishedAt(), s.GetExitCode())
	}
	for _, s := range a.sandboxes() {
		out[s.GetId()] = s.GetState().String()
	}
	return out
}

// unchanged checks that the runtime's objects are the same as before.
func (a *agent) unchanged(before map[string]string, why string) {
	a.T.Helper()
	if after := a.fingerprint(); !maps.Equal(before, after) {
		a.T.Errorf("%s changed the runtime's objects:\n%v\n%v", why, before, after)
	}
}

// kept checks that the runtime's objects of before still exist unchanged. There may be others.
func (a *agent) kept(before map[string]string, why string) {
	a.T.Helper()
	after := a.fingerprint()
	for id, was := range before {
		if after[id] != was {
			a.T.Errorf("%s changed %s from %s to %q", why, id, was, after[id])
		}
	}
}

// views returns what the pods report, one line each, once the observer has received what that follows from.
func (a *agent) views() []string {
	a.T.Helper()
	pods, err := a.list()
	if err != nil {
		a.T.Fatal(err)
	}
	a.quiet()
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
