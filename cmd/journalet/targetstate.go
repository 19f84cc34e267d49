package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/kind"
	"github.com/journalet/journalet/runtime/api/stream"
)

// running returns a pod and the name of its container once the container runs. It waits for a container that is
// starting; a container that does not run for another reason is an error.
func (t *target) running(ctx context.Context, c *stream.Client, name string) (p *corev1.Pod, container string,
	err error) {
	var notes io.Writer = t.a.err
	if t.quiet {
		notes = nil
	}
	p, err = t.await(ctx, c, name, func(p *corev1.Pod) (bool, error) {
		var err error
		if container, err = containerOf(p, t.container, notes); err != nil {
			return false, err
		}
		notes = nil // once
		return whyNotRunning(p, container)
	})
	return p, container, err
}

// runningPod returns a pod once it runs.
func (t *target) runningPod(ctx context.Context, c *stream.Client, name string) (*corev1.Pod, error) {
	return t.await(ctx, c, name, func(p *corev1.Pod) (bool, error) {
		if p.Status.Phase == corev1.PodRunning {
			return false, nil
		}
		return p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil,
			fmt.Errorf("pod %s/%s does not run: its phase is %s", p.Namespace, p.Name, p.Status.Phase)
	})
}

// await returns a pod once whyNot returns no error. It waits while whyNot returns that the pod is starting.
func (t *target) await(ctx context.Context, c *stream.Client, name string,
	whyNot func(*corev1.Pod) (isStarting bool, err error)) (*corev1.Pod, error) {
	deadline := time.Now().Add(t.wait)
	for waited := false; ; waited = true {
		p, err := t.pod(ctx, c, name)
		if err != nil {
			return nil, err
		}
		isStarting, err := whyNot(p)
		if err == nil {
			return p, nil
		}
		if !isStarting || !time.Now().Before(deadline) {
			return nil, err
		}
		if !waited && !t.quiet {
			t.a.notice(err.Error() + ": waiting at most " + t.wait.String())
		}
		name = string(p.UID)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(runningPoll):
		}
	}
}

// whyNotRunning returns why a container does not run, nil if it does, and whether it is about to.
func whyNotRunning(p *corev1.Pod, name string) (isStarting bool, err error) {
	what := fmt.Sprintf("container %s of pod %s/%s does not run", name, p.Namespace, p.Name)
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false, fmt.Errorf("%s: the pod has ended, its phase is %s", what, p.Status.Phase)
	}
	all := slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses)
	i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return p.DeletionTimestamp == nil, errors.New(what + " yet")
	}
	switch s := all[i].State; {
	case s.Running != nil:
		return false, nil
	case s.Terminated != nil:
		return false, fmt.Errorf("%s: it ended with exit code %d%s", what, s.Terminated.ExitCode,
			because(s.Terminated.Reason, s.Terminated.Message))
	case s.Waiting != nil:
		return kind.Starting(s.Waiting.Reason) && p.DeletionTimestamp == nil,
			errors.New(what + because(s.Waiting.Reason, s.Waiting.Message))
	}
	return p.DeletionTimestamp == nil, errors.New(what + " yet")
}

// because returns a reason and a message as the end of a sentence.
func because(reason, message string) string {
	text := ""
	if reason != "" {
		text = " (" + reason + ")"
	}
	if message = strings.TrimSpace(message); message != "" {
		text += ": " + message
	}
	return text
}

// completePods returns the names of the pods for shell completion.
func (t *target) completePods(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.completions(cmd, func(p *corev1.Pod) []string {
		if t.namespace != "" && p.Namespace != t.namespace {
			return nil
		}
		return []string{p.Name}
	})
}

func (t *target) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return t.completions(cmd, func(p *corev1.Pod) []string { return []string{p.Namespace} })
}

// completeContainers returns the containers of the pod that the command line names.
func (t *target) completeContainers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c := t.client()
	defer c.Close()
	p, err := t.pod(ctx, c, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return allContainers(p), cobra.ShellCompDirectiveNoFileComp
}

// completions returns what texts returns for each pod, sorted, each once.
func (t *target) completions(cmd *cobra.Command, texts func(*corev1.Pod) []string) ([]string,
	cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c := t.client()
	defer c.Close()
	pods, _ := c.Pods(ctx) // a shell shows no errors
	var all []string
	for i := range pods {
		all = append(all, texts(&pods[i])...)
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}
