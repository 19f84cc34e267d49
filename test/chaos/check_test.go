//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	podNameLabel = "io.kubernetes.pod.name"
	podUIDLabel  = "io.kubernetes.pod.uid"
	// agentMark is the annotation with the agent's id on all that it makes.
	agentMark = "journalet.io/agent"
	// callTimeout bounds a question that a test puts to the runtime, which may be on its way back.
	callTimeout = 30 * time.Second
)

// onRuntime is all that carries this agent's mark, in any state. What has its pods' names without the mark is an error.
func (a *agent) onRuntime() ([]*cri.PodSandbox, []*cri.Container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	boxes, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, nil, err
	}
	all, err := runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, nil, err
	}
	marks := map[string]bool{}
	var sandboxes []*cri.PodSandbox
	for _, s := range boxes.GetItems() {
		if strings.HasSuffix(s.GetLabels()[podNameLabel], "-"+a.node) {
			marks[s.GetAnnotations()[agentMark]] = true
			sandboxes = append(sandboxes, s)
		}
	}
	var containers []*cri.Container
	for _, c := range all.GetContainers() {
		if strings.HasSuffix(c.GetLabels()[podNameLabel], "-"+a.node) {
			marks[c.GetAnnotations()[agentMark]] = true
			containers = append(containers, c)
		}
	}
	if len(marks) > 1 || marks[""] {
		return sandboxes, containers, fmt.Errorf("what the agent made carries the marks %v, want one", marks)
	}
	return sandboxes, containers, nil
}

// holds tells what is not yet as the manifests want it, on the agent's and on the runtime's side.
func (a *agent) holds(wanted map[string]want) error {
	pods, err := a.list()
	if err != nil {
		return err
	}
	var wrong []error
	uids := map[string]want{}
	for _, p := range pods {
		w, ok := wanted[strings.TrimSuffix(p.Name, "-"+a.node)]
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s is still known (%s)", p.Name, p.UID))
			continue
		}
		if err := w.fits(&p); err != nil {
			wrong = append(wrong, fmt.Errorf("%s (%s): %w", p.Name, p.UID, err))
		}
		uids[string(p.UID)] = w
	}
	if len(pods) != len(wanted) {
		wrong = append(wrong, fmt.Errorf("%d pods are known, want %d", len(pods), len(wanted)))
	}
	sandboxes, containers, err := a.onRuntime()
	if err != nil {
		return errors.Join(append(wrong, err)...)
	}
	wrong = append(wrong, sandboxesFit(uids, sandboxes)...)
	wrong = append(wrong, containersFit(uids, containers)...)
	return errors.Join(wrong...)
}

// holdsAtLeast tells which of these pods are not as wanted, whatever becomes of the others.
func (a *agent) holdsAtLeast(wanted map[string]want) error {
	pods, err := a.list()
	if err != nil {
		return err
	}
	left := maps.Clone(wanted)
	var wrong []error
	for _, p := range pods {
		name := strings.TrimSuffix(p.Name, "-"+a.node)
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
		wrong = append(wrong, fmt.Errorf("%s is not known", name))
	}
	return errors.Join(wrong...)
}

// namesOf is all by which calls may mention a pod: its name, its UID, and the ids of what runs for it.
func (a *agent) namesOf(name string) []string {
	a.t.Helper()
	sandboxes, containers, err := a.onRuntime()
	if err != nil {
		a.t.Fatal(err)
	}
	full := name + "-" + a.node
	names := []string{full}
	for _, s := range sandboxes {
		if s.GetLabels()[podNameLabel] == full {
			names = append(names, s.GetId(), s.GetLabels()[podUIDLabel])
		}
	}
	for _, c := range containers {
		if c.GetLabels()[podNameLabel] == full {
			names = append(names, c.GetId())
		}
	}
	return names
}

// sandboxesFit tells which sandboxes belong to no pod, and which pods have too many or none.
func sandboxesFit(uids map[string]want, sandboxes []*cri.PodSandbox) []error {
	var wrong []error
	alive := map[string]int{}
	for _, s := range sandboxes {
		uid := s.GetLabels()[podUIDLabel]
		if _, ok := uids[uid]; !ok {
			wrong = append(wrong, fmt.Errorf("sandbox %.12s of %s (%s) is left over, %s", s.GetId(), s.GetLabels()[podNameLabel], uid, s.GetState()))
		}
		if s.GetState() == cri.PodSandboxState_SANDBOX_READY {
			alive[uid]++
		}
	}
	for uid, w := range uids {
		if n := alive[uid]; n != w.sandboxes() {
			wrong = append(wrong, fmt.Errorf("%d sandboxes of %s (%s) are ready, want %d", n, w.kind, uid, w.sandboxes()))
		}
	}
	return wrong
}

// containersFit tells which containers belong to no pod, run twice, or ended although nobody ended them.
func containersFit(uids map[string]want, containers []*cri.Container) []error {
	var wrong []error
	alive := map[string]int{}
	for _, c := range containers {
		uid := c.GetLabels()[podUIDLabel]
		w, ok := uids[uid]
		if !ok {
			wrong = append(wrong, fmt.Errorf("container %.12s of %s (%s) is left over, %s", c.GetId(), c.GetLabels()[podNameLabel], uid, c.GetState()))
			continue
		}
		if c.GetState() == cri.ContainerState_CONTAINER_RUNNING {
			alive[uid]++
			continue
		}
		if w.kind == idles && !w.crashed {
			if s, err := statusOf(c.GetId()); err == nil && s.GetStartedAt() != 0 {
				wrong = append(wrong, fmt.Errorf("container %.12s of %s ran and was replaced, its pod is as it was: %s, %d, %s %s",
					c.GetId(), c.GetLabels()[podNameLabel], s.GetState(), s.GetExitCode(), s.GetReason(), s.GetMessage()))
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

func statusOf(id string) (*cri.ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	r, err := runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	return r.GetStatus(), err
}

// stable is what must never change of pods whose manifests don't: sandboxes, containers and restart counts.
func (a *agent) stable() map[string]string {
	a.t.Helper()
	sandboxes, containers, err := a.onRuntime()
	if err != nil {
		a.t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range sandboxes {
		if strings.HasPrefix(s.GetLabels()[podNameLabel], stablePrefix) {
			out[s.GetId()] = fmt.Sprintf("sandbox of %s, %s", s.GetLabels()[podNameLabel], s.GetState())
		}
	}
	for _, c := range containers {
		if !strings.HasPrefix(c.GetLabels()[podNameLabel], stablePrefix) {
			continue
		}
		s, err := statusOf(c.GetId())
		if err != nil {
			a.t.Fatal(err)
		}
		out[c.GetId()] = fmt.Sprintf("container of %s, attempt %d, %s, started %d", c.GetLabels()[podNameLabel], c.GetMetadata().GetAttempt(), s.GetState(), s.GetStartedAt())
	}
	return out
}

// recovered waits until all is as the manifests want, and says what the chaos cost that it must not.
func (a *agent) recovered(wanted map[string]want, before map[string]string) {
	a.t.Helper()
	begun := time.Now()
	eventually(a.t, settle, "every pod as its manifest wants it", func() error { return a.holds(wanted) })
	a.t.Logf("all %d pods were as wanted after %s", len(wanted), time.Since(begun).Round(again))
	if after := a.stable(); !maps.Equal(before, after) {
		a.t.Errorf("pods that nobody changed were changed:\n%v\nand now\n%v", before, after)
	}
	pods, err := a.list()
	if err != nil {
		a.t.Fatal(err)
	}
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			if strings.HasPrefix(p.Name, stablePrefix) && c.RestartCount != 0 {
				a.t.Errorf("%s reports %d restarts", p.Name, c.RestartCount)
			}
		}
	}
	a.verified()
}

// verified has the agent check its journal.
func (a *agent) verified() {
	a.t.Helper()
	if out, err := a.cli("journal", "verify"); err != nil || !strings.Contains(out, "whole and unchanged") {
		a.t.Errorf("`journalet journal verify`: %v: %s", err, out)
	}
}

// removeSandbox clears away what a failed test left.
func removeSandbox(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, _ = runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	_, _ = runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
