//go:build chaos

package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/node"
)

// holds compares the manifests with the agent's report and with the runtime, and returns every difference.
func (a *agent) holds(wanted map[string]want) error {
	pods, err := a.Pods()
	if err != nil {
		return err
	}
	var wrong []error
	uids, lost := map[string]want{}, map[string]bool{}
	for _, p := range pods {
		w, ok := wanted[a.ShortName(p.Name)]
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s is still reported (%s)", p.Name, p.UID))
			continue
		}
		if err := w.fits(&p); err != nil {
			wrong = append(wrong, fmt.Errorf("%s (%s): %w", p.Name, p.UID, err))
		}
		uids[string(p.UID)], lost[string(p.UID)] = w, w.mayBeLost(&p)
	}
	if len(pods) != len(wanted) {
		wrong = append(wrong, fmt.Errorf("%d pods are reported, want %d", len(pods), len(wanted)))
	}
	sandboxes, containers, err := a.OnRuntime()
	if err != nil {
		return errors.Join(append(wrong, err)...)
	}
	wrong = append(wrong, sandboxesFit(uids, sandboxes, containers)...)
	wrong = append(wrong, containersFit(uids, containers)...)
	wrong = append(wrong, a.countsFit(pods, containers)...)
	wrong = append(wrong, a.runsFit(uids, lost)...)
	return errors.Join(append(wrong, a.directoriesFit(func(uid string) bool {
		_, ok := uids[uid]
		return ok
	}))...)
}

// holdsAtLeast compares these manifests with the agent's report, and ignores other pods.
func (a *agent) holdsAtLeast(wanted map[string]want) error {
	pods, err := a.Pods()
	if err != nil {
		return err
	}
	left := maps.Clone(wanted)
	var wrong []error
	for _, p := range pods {
		name := a.ShortName(p.Name)
		w, ok := wanted[name]
		if !ok {
			continue
		}
		delete(left, name)
		if err := w.fits(&p); err != nil {
			wrong = append(wrong, fmt.Errorf("%s (%s): %w", p.Name, p.UID, err))
		}
	}
	for name := range left {
		wrong = append(wrong, fmt.Errorf("%s is not reported", name))
	}
	return errors.Join(wrong...)
}

// namesOf returns what calls may name a pod by: its name, its UID, and the ids of its sandboxes and containers.
func (a *agent) namesOf(name string) []string {
	a.T.Helper()
	sandboxes, containers, err := a.OnRuntime()
	if err != nil {
		a.T.Fatal(err)
	}
	full := name + "-" + a.Node
	names := []string{full}
	for _, s := range sandboxes {
		if s.GetLabels()[node.PodNameLabel] == full {
			names = append(names, s.GetId(), s.GetLabels()[node.PodUIDLabel])
		}
	}
	for _, c := range containers {
		if c.GetLabels()[node.PodNameLabel] == full {
			names = append(names, c.GetId())
		}
	}
	return names
}

// sandboxesFit returns sandboxes without a pod, and pods with too many sandboxes or none. An older sandbox may stay
// only as long as it has a dead container that the status still reports.
func sandboxesFit(uids map[string]want, sandboxes []*cri.PodSandbox, containers []*cri.Container) []error {
	var wrong []error
	holds, alive, all := map[string]bool{}, map[string]int{}, map[string]int{}
	for _, c := range containers {
		holds[c.GetPodSandboxId()] = true
	}
	for _, s := range sandboxes {
		uid := s.GetLabels()[node.PodUIDLabel]
		if s.GetState() == cri.PodSandboxState_SANDBOX_READY || !holds[s.GetId()] {
			all[uid]++
		}
		if _, ok := uids[uid]; !ok {
			wrong = append(wrong, fmt.Errorf("sandbox %.12s of %s (%s) is left over, %s",
				s.GetId(), s.GetLabels()[node.PodNameLabel], uid, s.GetState()))
		}
		if s.GetState() == cri.PodSandboxState_SANDBOX_READY {
			alive[uid]++
		}
	}
	for uid, w := range uids {
		if n := alive[uid]; n != w.sandboxes() {
			wrong = append(wrong, fmt.Errorf("%d sandboxes of %s (%s) are ready, want %d", n, w.kind, uid, w.sandboxes()))
		}
		if all[uid] > 1 {
			wrong = append(wrong, fmt.Errorf("%d sandboxes of %s (%s) are ready or empty, want one at most",
				all[uid], w.kind, uid))
		}
	}
	return wrong
}

// containersFit returns containers without a pod, duplicates, and containers that ended though no test stopped them.
func containersFit(uids map[string]want, containers []*cri.Container) []error {
	var wrong []error
	alive, dead := map[string]int{}, map[string]int{}
	for _, c := range containers {
		uid := c.GetLabels()[node.PodUIDLabel]
		w, ok := uids[uid]
		if !ok {
			wrong = append(wrong, fmt.Errorf("container %.12s of %s (%s) is left over, %s",
				c.GetId(), c.GetLabels()[node.PodNameLabel], uid, c.GetState()))
			continue
		}
		if c.GetState() == cri.ContainerState_CONTAINER_RUNNING {
			alive[uid]++
			continue
		}
		if dead[uid]++; dead[uid] > 1 {
			wrong = append(wrong, fmt.Errorf("%s (%s) has %d dead containers, want only the newest",
				w.kind, uid, dead[uid]))
		}
		if w.kind == idles && !w.crashed {
			if s, err := setup.Runtime.Container(c.GetId()); err == nil && s.GetStartedAt() != 0 {
				wrong = append(wrong, fmt.Errorf("container %.12s of the unchanged pod %s was replaced: %s, %d, %s %s",
					c.GetId(), c.GetLabels()[node.PodNameLabel], s.GetState(), s.GetExitCode(), s.GetReason(), s.GetMessage()))
			}
		}
	}
	for uid, w := range uids {
		n := alive[uid]
		if n > 1 || w.kind == idles && n != 1 || (w.kind == succeeds || w.kind == fails) && n != 0 {
			wrong = append(wrong, fmt.Errorf("%d containers of %s (%s) run", n, w.kind, uid))
		}
	}
	return wrong
}

// countsFit returns pods whose restart count differs from the attempt number of their running container.
func (a *agent) countsFit(pods []corev1.Pod, containers []*cri.Container) []error {
	var wrong []error
	reported := map[string]int32{}
	for _, p := range pods {
		if len(p.Status.ContainerStatuses) == 1 {
			reported[string(p.UID)] = p.Status.ContainerStatuses[0].RestartCount
		}
	}
	for _, c := range containers {
		n, ok := reported[c.GetLabels()[node.PodUIDLabel]]
		is := int32(c.GetMetadata().GetAttempt())
		if ok && c.GetState() == cri.ContainerState_CONTAINER_RUNNING && is != n {
			wrong = append(wrong, fmt.Errorf("%s reports %d restarts, but its running container is attempt %d",
				c.GetLabels()[node.PodNameLabel], n, is))
		}
	}
	return wrong
}

// runsFit returns pods that did not run exactly once, over all their containers and sandboxes. A lost one may not have
// run.
func (a *agent) runsFit(uids map[string]want, lost map[string]bool) []error {
	var wrong []error
	for uid, w := range uids {
		if w.kind == crashes || w.crashed {
			continue
		}
		files := []string{filepath.Join(a.Root, "pods", uid, runsFile)}
		if w.sandboxes() == 0 {
			files, _ = filepath.Glob(filepath.Join(a.PodLogs, "*_"+uid, "main", "*.log")) // the pattern is valid
		}
		n := 0
		var err error
		for _, f := range files {
			b, failed := os.ReadFile(f)
			n, err = n+bytes.Count(b, []byte("ran\n")), errors.Join(err, failed)
		}
		if n > 1 || n == 0 && !lost[uid] || err != nil {
			wrong = append(wrong, err, fmt.Errorf("%s (%s) ran %d times, want once", w.kind, uid, n))
		}
	}
	return wrong
}

// directoriesFit returns directories and logs of pods that isPod does not report, by UID.
func (a *agent) directoriesFit(isPod func(uid string) bool) error {
	var wrong []error
	for _, dir := range []string{filepath.Join(a.Root, "pods"), a.PodLogs} {
		left, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, err)
		}
		for _, d := range left {
			// namespace_name_uid, or uid
			uid := d.Name()[strings.LastIndex(d.Name(), "_")+1:]
			if !isPod(uid) {
				wrong = append(wrong, fmt.Errorf("%s is left over", filepath.Join(dir, d.Name())))
			}
		}
	}
	return errors.Join(wrong...)
}

// stable describes what must not change of pods with unchanged manifests: sandboxes, containers and restart counts.
func (a *agent) stable() map[string]string {
	a.T.Helper()
	sandboxes, containers, err := a.OnRuntime()
	if err != nil {
		a.T.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range sandboxes {
		if strings.HasPrefix(s.GetLabels()[node.PodNameLabel], stablePrefix) {
			out[s.GetId()] = fmt.Sprintf("sandbox of %s, %s", s.GetLabels()[node.PodNameLabel], s.GetState())
		}
	}
	for _, c := range containers {
		if !strings.HasPrefix(c.GetLabels()[node.PodNameLabel], stablePrefix) {
			continue
		}
		s, err := setup.Runtime.Container(c.GetId())
		if err != nil {
			a.T.Fatal(err)
		}
		out[c.GetId()] = fmt.Sprintf("container of %s, attempt %d, %s, started %d",
			c.GetLabels()[node.PodNameLabel], c.GetMetadata().GetAttempt(), s.GetState(), s.GetStartedAt())
	}
	return out
}

// recovered waits until all pods match their manifests, and checks that no unchanged pod was touched.
func (a *agent) recovered(wanted map[string]want, before map[string]string) {
	a.T.Helper()
	begun := time.Now()
	node.Eventually(a.T, settle, "every pod to match its manifest", func() error { return a.holds(wanted) })
	a.T.Logf("all %d pods matched their manifests after %s", len(wanted), time.Since(begun).Round(time.Millisecond))
	if after := a.stable(); !maps.Equal(before, after) {
		a.T.Errorf("pods with unchanged manifests were changed:\n%v\nand now\n%v", before, after)
	}
	pods, err := a.Pods()
	if err != nil {
		a.T.Fatal(err)
	}
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			if strings.HasPrefix(p.Name, stablePrefix) && c.RestartCount != 0 {
				a.T.Errorf("%s reports %d restarts", p.Name, c.RestartCount)
			}
		}
	}
	a.Verified()
}
