//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// onceKills counts the kills of the agent while pods of restartPolicy Never start: each of four moments twice. The
	// simulation kills it at thousands of others.
	onceKills = 8
	// oncePods counts the new pods before each kill.
	oncePods = 3
)

// part matches requests for a part of a container's start, after a record.
func part(t *testing.T, after uint64, want journaletv1.StartPart) func(messages.Flat) bool {
	return func(f messages.Flat) bool {
		return f.Seq > after && f.Event == "call_requested" &&
			event(t, f).GetCallRequested().GetStartContainer().GetPart() == want
	}
}

func TestRestartPolicyNeverRunsOnceWheneverTheAgentIsKilled(t *testing.T) {
	t.Parallel()
	a, dir := newAgent(t), t.TempDir()
	a.Spawn()
	a.watch()
	var names []string
	for round := range onceKills {
		after := a.journal.last()
		for i := range oncePods {
			name := fmt.Sprintf("once-%02d-%d", round, i)
			names = append(names, name)
			a.put(newPod(name, "echo ran >> /h/"+name, restarts(corev1.RestartPolicyNever), host(dir)))
		}
		// By turns: the request to create a container, and the first, second and third request to start one.
		moment, n := part(t, after, journaletv1.StartPart_START_PART_START), round%4
		if n == 0 {
			moment, n = part(t, after, journaletv1.StartPart_START_PART_CREATE), 1
		}
		a.journal.wait(t, after, settle, "requested starts", func(f messages.Flat) bool {
			return moment(f) && a.journal.count(moment) >= n
		})
		a.Kill()
		a.Spawn()
	}
	ends := map[string]int{}
	pods := a.pods("every pod completed or failed", func(pods map[string]*corev1.Pod) bool {
		for _, name := range names {
			if p := pods[name]; p == nil || p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				return false
			}
		}
		return true
	})
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		ran, c := strings.Count(string(text), "ran"), container(pods[name], "main")
		if ran > 1 || c.RestartCount > 0 {
			t.Errorf("%s ran %d times and reports %d restarts", name, ran, c.RestartCount)
		}
		end := c.State.Terminated
		switch {
		case end == nil:
			t.Errorf("%s has no terminated state: %v", name, c.State)
		case end.Reason == "ContainerStatusUnknown" && end.ExitCode == 137:
		case pods[name].Status.Phase != corev1.PodSucceeded || ran != 1:
			t.Errorf("%s ran %d times and is %s: %v", name, ran, pods[name].Status.Phase, end)
		}
		if end != nil {
			ends[end.Reason]++
		}
	}
	t.Logf("%d pods, %d kills: %v", len(names), onceKills, ends)
	a.Verified()
}
