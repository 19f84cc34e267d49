//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// onceKills is how often the agent is killed while pods of restartPolicy Never start.
	onceKills = 20
	// oncePods is how many such pods come before each kill.
	oncePods = 3
)

// part matches requests for a part of a start, or for their outcomes, after a record.
func part(t *testing.T, after uint64, want journaletv1.StartPart) func(bus.Flat) bool {
	return func(f bus.Flat) bool {
		return f.Seq > after && f.Event == "call_requested" && event(t, f).GetCallRequested().GetStartContainer().GetPart() == want
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
			a.Put(name+".yaml", manifest(newPod(name, "echo ran >> /h/"+name, restarts(corev1.RestartPolicyNever), func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "h", MountPath: "/h"}}
			})))
		}
		// The moments go round: a container is to be made, one, two, all three are to be started.
		moment, n := part(t, after, journaletv1.StartPart_START_PART_START), round%4
		if n == 0 {
			moment, n = part(t, after, journaletv1.StartPart_START_PART_CREATE), 1
		}
		a.journal.wait(t, after, settle, "a start under way", func(f bus.Flat) bool { return moment(f) && a.journal.count(moment) >= n })
		a.Kill()
		a.Spawn()
	}
	ends := map[string]int{}
	pods := a.pods("every pod at its end", func(pods map[string]*corev1.Pod) bool {
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
			t.Errorf("%s ran %d times and tells of %d restarts", name, ran, c.RestartCount)
		}
		end := c.State.Terminated
		switch {
		case end == nil:
			t.Errorf("%s has ended without a word: %v", name, c.State)
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
