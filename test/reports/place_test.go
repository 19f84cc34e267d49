//go:build reports

package reports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// settle bounds what a few pods need on a machine that does other things as well.
const settle = 3 * time.Minute

// place is where a test creates its pods: a namespace of the API server, or the directory of static pods, whose pods
// are in that namespace, too.
type place struct {
	*machine
	*testing.T
	namespace string
	static    bool
}

// everywhere tries a report with pods of the API server, and with static pods.
func everywhere(t *testing.T, try func(p *place)) {
	t.Run("api", func(t *testing.T) { run(t, false, try) })
	t.Run("static", func(t *testing.T) { run(t, true, try) })
}

// ofAPI tries a report with pods of the API server alone: what they refer to, a static pod must not.
func ofAPI(t *testing.T, try func(p *place)) { run(t, false, try) }

// ofFiles tries a report about manifests.
func ofFiles(t *testing.T, try func(p *place)) { run(t, true, try) }

func run(t *testing.T, static bool, try func(p *place)) {
	t.Parallel()
	name := regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-")
	if len(name) > 50 {
		name = name[:40] + fmt.Sprintf("-%d", len(name)) + name[len(name)-6:]
	}
	p := &place{machine: &it, T: t, namespace: name, static: static}
	namespaces := it.client.CoreV1().Namespaces()
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}
	_, err := namespaces.Create(t.Context(), namespace, meta.CreateOptions{})
	must.OK(t, err)
	t.Cleanup(p.clean)
	p.until("the namespace's service account", func() error {
		_, err := it.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", meta.GetOptions{})
		return err
	})
	try(p)
}

// clean removes what a test has created, and waits until its pods are gone.
func (p *place) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	files, err := filepath.Glob(filepath.Join(p.manifests(), p.namespace+"_*"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	if p.Failed() {
		p.explain(ctx)
	}
	err = errors.Join(err, p.client.CoreV1().Namespaces().Delete(ctx, p.namespace, meta.DeleteOptions{}))
	if err != nil {
		p.Error(err)
		return
	}
	p.until("the namespace to be gone", func() error {
		_, err := p.client.CoreV1().Namespaces().Get(ctx, p.namespace, meta.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			err = errors.New("it is still there")
		}
		return err
	})
}

// explain logs what a person would read first.
func (p *place) explain(ctx context.Context) {
	out, err := p.Command(ctx, "--namespace", p.namespace, "describe", "pods").CombinedOutput()
	p.Logf("%s%v", out, err)
}

// apply creates or changes objects of the API server, as YAML or JSON, in the test's namespace.
func (p *place) apply(text string) {
	p.Helper()
	p.kubectl(text, "apply", "-f", "-")
}

// kubectl returns what kubectl prints, and fails the test if it fails.
func (p *place) kubectl(input string, args ...string) string {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	cmd := p.Command(ctx, append([]string{"--namespace", p.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		p.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// pod creates a pod, bound to the node.
func (p *place) pod(spec *core.Pod) {
	p.Helper()
	spec = spec.DeepCopy()
	spec.Namespace = p.namespace
	if p.static {
		p.manifest(spec.Name+".yaml", node.Manifest(spec))
		return
	}
	spec.Spec.NodeName = nodeName
	_, err := p.client.CoreV1().Pods(p.namespace).Create(p.Context(), spec, meta.CreateOptions{})
	must.OK(p.T, err)
}

// manifest writes a file of static pods, as a whole.
func (p *place) manifest(name, text string) {
	p.Helper()
	file := filepath.Join(p.manifests(), p.namespace+"_"+name)
	aside := filepath.Join(filepath.Dir(p.manifests()), p.namespace+"_"+name)
	must.OK(p.T, errors.Join(os.WriteFile(aside, []byte(text), 0o600), os.Rename(aside, file)))
}

// remove removes a pod: its manifest, or its object with the pod's own grace period.
func (p *place) remove(name string) {
	p.Helper()
	if p.static {
		must.OK(p.T, os.Remove(filepath.Join(p.manifests(), p.namespace+"_"+name+".yaml")))
		return
	}
	must.OK(p.T, p.client.CoreV1().Pods(p.namespace).Delete(p.Context(), name, meta.DeleteOptions{}))
}

// full is the name that a pod has at the API server.
func (p *place) full(name string) string {
	if p.static {
		return name + "-" + nodeName
	}
	return name
}

// get returns a pod as the API server has it, nil if it has none.
func (p *place) get(name string) *core.Pod {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
	defer cancel()
	found, err := p.client.CoreV1().Pods(p.namespace).Get(ctx, p.full(name), meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.OK(p.T, err)
	return found
}

// until repeats try until it returns no error.
func (p *place) until(what string, try func() error) {
	p.Helper()
	node.Eventually(p.T, settle, what, try)
}

// await waits until a pod is as a test wants it, and returns the pod.
func (p *place) await(name, what string, is func(*core.Pod) bool) *core.Pod {
	p.Helper()
	var found *core.Pod
	p.until("pod "+name+" to be "+what, func() error {
		if found = p.get(name); found == nil {
			return errors.New("the API server has no such pod")
		}
		if !is(found) {
			return fmt.Errorf("its status: %s", found.Status.String())
		}
		return nil
	})
	return found
}

// ready waits until a pod is ready.
func (p *place) ready(name string) *core.Pod {
	p.Helper()
	return p.await(name, "ready", node.Ready)
}

// ended waits until a pod has the phase Succeeded or Failed.
func (p *place) ended(name string) *core.Pod {
	p.Helper()
	return p.await(name, "at its end", func(pod *core.Pod) bool {
		return pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
	})
}

// waits waits until a container of a pod waits with a reason, and returns the message.
func (p *place) waits(name, container, reason string) string {
	p.Helper()
	pod := p.await(name, "waiting with reason "+reason, func(pod *core.Pod) bool {
		waiting := node.Container(pod, container).State.Waiting
		return waiting != nil && waiting.Reason == reason
	})
	return node.Container(pod, container).State.Waiting.Message
}

// exec returns what a command prints that runs in the container "main" of a pod.
func (p *place) exec(name string, command ...string) string {
	p.Helper()
	return p.runtime.Exec(p.T, node.BareID(node.Container(p.get(name), "main").ContainerID), command...)
}

// output waits until a container of a pod has logged a line that begins with the words, and returns the rest of it.
func (p *place) output(name, container, words string) string {
	p.Helper()
	var rest string
	p.until("container "+container+" of pod "+name+" to log "+words, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
		defer cancel()
		out, err := p.Command(ctx, "--namespace", p.namespace, "logs", p.full(name), "-c", container).Output()
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			if found, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), words); ok {
				rest = found
				return nil
			}
		}
		return fmt.Errorf("it has logged %q", out)
	})
	return rest
}

// pod returns a pod whose container "main" runs a script.
func pod(name, script string, change ...func(*core.Pod)) *core.Pod {
	return node.Pod(name, node.Image, script, change...)
}
