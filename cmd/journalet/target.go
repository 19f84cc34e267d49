package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/runtime/api/stream"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	socketEnv = "JOURNALET_SOCKET"
	// defaultContainer is the annotation that names a pod's default container (KEP-2227).
	defaultContainer = "kubectl.kubernetes.io/default-container"
	// maxNear bounds the names that an error suggests.
	maxNear = 5
	// runningPoll is the pause between two reads of a container that is starting.
	runningPoll = 200 * time.Millisecond
	// completionTimeout bounds what a shell waits for.
	completionTimeout = 2 * time.Second
)

// target is what a command in a pod is directed at, as flags: the socket, the namespace, the container.
type target struct {
	a                            *app
	socket, namespace, container string
	quiet                        bool          // no note about the default container
	wait                         time.Duration // how long a container that is starting is waited for
}

// targetFlags adds --socket and --namespace to a command whose first argument is a pod, and the completion of it.
func (a *app) targetFlags(cmd *cobra.Command) *target {
	t := &target{a: a}
	f := cmd.Flags()
	f.StringVar(&t.socket, "socket", os.Getenv(socketEnv),
		"socket of the agent (env "+socketEnv+"); empty: "+stream.SocketName+" in --root-dir")
	f.StringVarP(&t.namespace, "namespace", "n", "", "the pod's namespace, if several pods have the name")
	complete(cmd, "namespace", t.completeNamespaces)
	cmd.ValidArgsFunction = t.completePods
	return t
}

// containerFlag adds --container.
func (t *target) containerFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&t.container, "container", "c", "", "container; empty: that of the annotation "+
		defaultContainer+", else the first")
	complete(cmd, "container", t.completeContainers)
}

// sessionFlags adds the flags of a command that needs a running container.
func (t *target) sessionFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&t.quiet, "quiet", "q", false, "print nothing but what comes from the container")
	t.waitFlag(cmd)
}

// waitFlag adds --pod-running-timeout.
func (t *target) waitFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&t.wait, "pod-running-timeout", time.Minute,
		"how long to wait for what is starting; 0: not at all")
}

// client returns a client of the agent's socket.
func (t *target) client() *stream.Client {
	return stream.New(cmp.Or(t.socket, filepath.Join(t.a.rootDir, stream.SocketName)))
}

// socketError turns an error of the socket into one of the command line, with its exit code.
func (t *target) socketError(err error) error {
	var status *stream.StatusError
	switch {
	case errors.Is(err, stream.ErrNoAgent):
		return noAgentError{err}
	case errors.As(err, &status) && status.Code == 404:
		return notFoundError{err}
	}
	return err
}

// pod returns the pod of a name, namespace/name, pod/name or UID.
func (t *target) pod(ctx context.Context, c *stream.Client, name string) (*corev1.Pod, error) {
	pods, err := c.Pods(ctx)
	if err != nil {
		return nil, t.socketError(err)
	}
	return findPod(pods, t.namespace, name)
}

// findPod returns the pod of a name, namespace/name, pod/name or UID, in a namespace unless that is empty.
func findPod(pods []corev1.Pod, namespace, name string) (*corev1.Pod, error) {
	if name = withoutKind(name); name == "" {
		return nil, usagef("no pod given: want its name, namespace/name or UID")
	}
	var hits []*corev1.Pod
	for i := range pods {
		p := &pods[i]
		if namespace != "" && p.Namespace != namespace {
			continue
		}
		if string(p.UID) == name {
			return p, nil
		}
		if history.MatchesName(name, p.Spec.NodeName, p.Namespace, p.Name) {
			hits = append(hits, p)
		}
	}
	switch hits = currentOf(hits); len(hits) {
	case 0:
		return nil, notFoundError{errors.New(noPod(pods, namespace, name))}
	case 1:
		return hits[0], nil
	}
	var which []string
	for _, p := range hits {
		which = append(which, fmt.Sprintf("%s/%s (UID %s)", p.Namespace, p.Name, p.UID))
	}
	return nil, usagef("%d pods match %q: %s; give namespace/name or the UID", len(hits), name,
		strings.Join(which, ", "))
}

// withoutKind returns the name of pod/name, which kubectl takes, too.
func withoutKind(name string) string {
	for _, kind := range []string{"pod/", "pods/", "po/"} {
		if short, ok := strings.CutPrefix(name, kind); ok {
			return short
		}
	}
	return name
}

// currentOf leaves out pods that wait until another one of their namespace and name has finished.
func currentOf(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning && slices.ContainsFunc(pods, func(o *corev1.Pod) bool {
			return o != p && o.Namespace == p.Namespace && o.Name == p.Name && o.Status.Phase == corev1.PodRunning
		})
	})
}

// noPod returns the text about a pod that does not exist, with the names that are near.
func noPod(pods []corev1.Pod, namespace, name string) string {
	text := fmt.Sprintf("pod %q not found", name)
	if namespace != "" {
		text += " in namespace " + namespace
	}
	_, short, ok := strings.Cut(name, "/")
	if !ok {
		short = name
	}
	var near []string
	for i := range pods {
		p := &pods[i]
		if isNear(short, strings.TrimSuffix(p.Name, "-"+p.Spec.NodeName)) || isNear(short, p.Name) {
			near = append(near, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(near)
	near = slices.Compact(near)
	if len(near) == 0 {
		return text + ": `journalet pods` lists all pods"
	}
	return text + "; did you mean " + strings.Join(near[:min(len(near), maxNear)], " or ") + "?"
}

// isNear reports whether a name is likely meant by what was typed: one is part of the other, they have the same
// letters, or they differ in two letters, or in one if they are short.
func isNear(typed, name string) bool {
	const short, longest = 4, 253
	if len(typed) < 3 || len(typed) > longest || len(name) > longest {
		return strings.HasPrefix(name, typed)
	}
	most := 2
	if min(len(typed), len(name)) <= short {
		most = 1
	}
	return strings.Contains(name, typed) || strings.Contains(typed, name) || letters(typed) == letters(name) ||
		manifest.Distance(typed, name) <= most
}

// letters returns the letters of a text in order.
func letters(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}

// containerOf returns the name of a pod's container: the given one, or the default one with a note on notes, which may
// be nil.
func containerOf(p *corev1.Pod, name string, notes io.Writer) (string, error) {
	name = cmp.Or(name, p.Annotations[defaultContainer])
	if name != "" {
		if containers.Find(p, name) == nil {
			return "", notFoundError{fmt.Errorf("container %q not found in pod %s/%s: it has %s", name, p.Namespace, p.Name,
				containerNames(p))}
		}
		return name, nil
	}
	if len(p.Spec.Containers) == 0 {
		return "", notFoundError{fmt.Errorf("pod %s/%s has no containers", p.Namespace, p.Name)}
	}
	name = p.Spec.Containers[0].Name
	if notes != nil && len(p.Spec.Containers)+len(p.Spec.InitContainers)+len(p.Spec.EphemeralContainers) > 1 {
		fmt.Fprintf(notes, "Defaulted container %q out of: %s\n", name, containerNames(p))
	}
	return name, nil
}

// containerNames lists the containers of a pod as kubectl does.
func containerNames(p *corev1.Pod) string {
	var all []string
	for i := range p.Spec.Containers {
		all = append(all, p.Spec.Containers[i].Name)
	}
	for i := range p.Spec.EphemeralContainers {
		all = append(all, p.Spec.EphemeralContainers[i].Name+" (ephem)")
	}
	for i := range p.Spec.InitContainers {
		all = append(all, p.Spec.InitContainers[i].Name+" (init)")
	}
	return strings.Join(all, ", ")
}
