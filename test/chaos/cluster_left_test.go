//go:build chaos && cluster

package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	core "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

// sandboxes returns the lab's sandboxes, in any state: nothing else runs on the lab.
func (s *site) sandboxes() []*cri.PodSandbox {
	ctx, cancel := node.Bounded()
	defer cancel()
	list, err := setup.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		s.t.Error(err)
	}
	return list.GetItems()
}

// runtimeFits compares the runtime with the pods of the API server: a pod that runs has one sandbox and its containers,
// a terminal one has nothing that runs, and there is nothing else.
func (s *site) runtimeFits(pods map[string]*core.Pod) error {
	ctx, cancel := node.Bounded()
	defer cancel()
	list, err := setup.Runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	var wrong []error
	live, running := map[string]int{}, map[string]map[string]*cri.Container{}
	for _, box := range s.sandboxes() {
		uid := box.GetLabels()[node.PodUIDLabel]
		switch p := pods[uid]; {
		case p == nil:
			wrong = append(wrong, fmt.Errorf("sandbox %.12s of %s (%s) is left over, %s", box.GetId(),
				box.GetLabels()[node.PodNameLabel], uid, box.GetState()))
		case box.GetState() == cri.PodSandboxState_SANDBOX_READY:
			live[uid]++
		}
	}
	for _, c := range list.GetContainers() {
		uid, name := c.GetLabels()[node.PodUIDLabel], c.GetLabels()[node.ContainerNameLabel]
		if pods[uid] == nil {
			wrong = append(wrong, fmt.Errorf("container %s of %s (%s) is left over, %s", name,
				c.GetLabels()[node.PodNameLabel], uid, c.GetState()))
			continue
		}
		if c.GetState() != cri.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if running[uid] == nil {
			running[uid] = map[string]*cri.Container{}
		}
		if running[uid][name] != nil {
			wrong = append(wrong, fmt.Errorf("two containers %s of %s (%s) run", name, pods[uid].Name, uid))
		}
		running[uid][name] = c
	}
	for uid, p := range pods {
		want := 1
		if ended(p) {
			want = 0
		}
		if live[uid] != want {
			wrong = append(wrong, fmt.Errorf("%s (%s) is %s and has %d live sandboxes, want %d", p.Name, uid,
				p.Status.Phase, live[uid], want))
		}
		wrong = append(wrong, containersAre(p, running[uid]))
	}
	return errors.Join(wrong...)
}

// containersAre compares a pod's containers that run with its status.
func containersAre(p *core.Pod, running map[string]*cri.Container) error {
	var wrong []error
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		c := running[s.Name]
		delete(running, s.Name)
		switch {
		case (s.State.Running == nil) != (c == nil):
			wrong = append(wrong, fmt.Errorf("%s of %s (%s) is reported as %v and is %v", s.Name, p.Name, p.UID, s.State, c))
		case c != nil && (node.BareID(s.ContainerID) != c.GetId() || s.RestartCount != int32(c.GetMetadata().GetAttempt())):
			wrong = append(wrong, fmt.Errorf("%s of %s (%s) is reported as %s with %d restarts, and is %s, attempt %d",
				s.Name, p.Name, p.UID, s.ContainerID, s.RestartCount, c.GetId(), c.GetMetadata().GetAttempt()))
		}
	}
	for name := range running {
		wrong = append(wrong, fmt.Errorf("%s of %s (%s) runs and is not reported", name, p.Name, p.UID))
	}
	return errors.Join(wrong...)
}

// diskFits returns directories, logs, mounts and cgroups of pods that the API server does not have, and mounts and
// processes of pods that have ended.
func (s *site) diskFits(pods map[string]*core.Pod) error {
	var wrong []error
	check := func(what, uid string, isTerminal bool) {
		if p := pods[uid]; p == nil || isTerminal && ended(p) {
			wrong = append(wrong, fmt.Errorf("%s is left over", what))
		}
	}
	wrong = append(wrong, s.agent.directoriesFit(func(uid string) bool { return pods[uid] != nil }))
	for _, dir := range s.agent.PodCgroups(false) {
		// A runtime that is killed while it starts a container leaves the container's cgroup, which goes with the pod.
		check(dir, strings.TrimPrefix(filepath.Base(dir), "pod"), hasProcesses(dir))
	}
	below := filepath.Join(s.agent.Root, "pods")
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(below))
	for _, m := range mounts {
		uid, _, _ := strings.Cut(strings.TrimPrefix(m.Mountpoint, below+"/"), "/")
		check(m.Mountpoint, uid, true)
	}
	return errors.Join(append(wrong, err)...)
}

// hasProcesses reports whether a process is in a cgroup or below.
func hasProcesses(dir string) bool {
	found := false
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "cgroup.procs" {
			pids, _ := os.ReadFile(path) // it may be gone
			found = found || len(pids) > 0
		}
		return nil
	})
	return found
}

// reportWitnessed fails the test, once each, for what containers have recorded that nothing excuses later: a mount that
// was missing, and two that ran at once under one pod name, unless the first was deleted by force.
func (s *site) reportWitnessed() {
	missing, doubles := s.recorded("missing"), s.recorded("doubles")
	for _, line := range missing[s.missing:] {
		s.t.Errorf("a container had no %s", line)
	}
	for _, line := range doubles[s.doubles:] {
		// pod, its UID, the holder's UID, time
		if f := strings.Fields(line); len(f) != 4 || f[1] == f[2] || !s.churn.wasForced(f[2]) {
			s.t.Errorf("two containers ran at once: %s", line)
		}
	}
	s.missing, s.doubles = len(missing), len(doubles)
}

// witnessFits compares what containers have recorded themselves with what was reported about them.
func (s *site) witnessFits(pods map[string]*core.Pod) error {
	var wrong []error
	entries, err := os.ReadDir(filepath.Join(s.witness, "pods"))
	for _, e := range entries {
		lines := s.recorded(filepath.Join("pods", e.Name()))
		done := slices.Contains(lines, "done")
		runs := len(lines)
		if done {
			runs--
		}
		p, gone := s.observer.last(e.Name())
		if p == nil {
			wrong = append(wrong, fmt.Errorf("%s ran %d times, and the API server never had it", e.Name(), runs))
			continue
		}
		wrong = append(wrong, ranAtMost(p, runs))
		if !gone { // otherwise its last status may not have been seen
			wrong = append(wrong, ranAsReported(p, runs, done))
		}
	}
	for uid, p := range pods {
		if _, err := os.Stat(filepath.Join(s.witness, "pods", uid)); node.Ready(p) && err != nil {
			wrong = append(wrong, fmt.Errorf("%s (%s) is ready and never ran", p.Name, uid))
		}
	}
	return errors.Join(append(wrong, err)...)
}

// ranAtMost returns an error if a pod's container has run more often than its work has to.
func ranAtMost(p *core.Pod, runs int) error {
	most := 1
	if p.Labels[workLabel] == retry {
		most = retries
	}
	if runs > most {
		return fmt.Errorf("%s (%s, %s) ran %d times, want %d at most", p.Name, p.UID, p.Labels[workLabel], runs, most)
	}
	return nil
}

// ranAsReported compares the runs of a pod's container, and whether its work was done, with the pod's status.
func ranAsReported(p *core.Pod, runs int, done bool) error {
	work, main := p.Labels[workLabel], node.Container(p, "main")
	end := main.State.Terminated
	switch {
	case runs > int(main.RestartCount)+1:
		return fmt.Errorf("%s (%s, %s) ran %d times and reports %d restarts", p.Name, p.UID, work, runs, main.RestartCount)
	case lost(p):
	case work != idle && done != (p.Status.Phase == core.PodSucceeded):
		return fmt.Errorf("%s (%s, %s) is %s, done: %t, %v", p.Name, p.UID, work, p.Status.Phase, done, end)
	case work == fail && end != nil && end.ExitCode != failingCode:
		return fmt.Errorf("%s (%s) ended with %d, want %d", p.Name, p.UID, end.ExitCode, failingCode)
	}
	return nil
}

// lost reports whether a pod has failed because it is unknown how its container has ended: its start was in doubt, and
// it may not run twice, or containerd was killed before it had the exit code.
func lost(p *core.Pod) bool {
	end := node.Container(p, "main").State.Terminated
	return p.Status.Phase == core.PodFailed && end != nil &&
		(end.Reason == "ContainerStatusUnknown" && end.ExitCode == 137 || end.Reason == "Unknown" && end.ExitCode == 255)
}

// recorded returns the lines of a file of the witness, none if there is no such file.
func (s *site) recorded(file string) []string {
	b, err := os.ReadFile(filepath.Join(s.witness, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Error(err)
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}
