package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/history/describe"
)

const (
	// pluginName is the name under which the program is a plugin of kubectl, pluginCompleteName that under which kubectl
	// calls it to complete a command line (ADR 093).
	pluginName         = "kubectl-journalet"
	pluginCompleteName = "kubectl_complete-journalet"

	// maxChildErrors bounds what is read of an error of kubectl.
	maxChildErrors = 16 << 10
	// maxChildAnswer bounds a short answer of kubectl.
	maxChildAnswer = 1 << 20
	// maxAnswer bounds an answer of an agent that is no stream; on the bus none is longer.
	maxAnswer = 16 << 20
	// maxBundle bounds a bundle of one pod.
	maxBundle = 1 << 30
)

var errNoKubectl = errors.New("there is no kubectl in PATH: this plugin asks the API server by it")

// pluginCommand returns the program as a plugin of kubectl.
func (a *app) pluginCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   pluginName,
		Short: "Why pods on nodes with Journalet are as they are, without a shell on the node",
		Long: "Ask the agents of a cluster's nodes why pods are as they are. The requests go through the API server,\n" +
			"which requires permission to get nodes/proxy, and kubectl sends them: who can use it can use this plugin.\n\n" +
			"A pod that the API server no longer has is found with --node, by the name, namespace/name or UID that it had.\n\n" +
			exitHelp,
		Example: "  kubectl journalet why web-7d4b9\n" +
			"  kubectl journalet timeline web-7d4b9 -n shop --file web.html\n" +
			"  kubectl journalet observe web-7d4b9 --since 10m",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl journalet"},
		Args:        usageArgs(cobra.NoArgs),
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	k := &kubectl{a: a, flags: root.PersistentFlags()}
	k.addFlags()
	silent(root).AddCommand(a.pluginWhyCommand(k), a.pluginTimelineCommand(k), a.pluginObserveCommand(k),
		a.pluginExportCommand(k), pluginLogsCommand())
	complete(root, "node", k.completeNames("nodes"))
	complete(root, "namespace", k.completeNames("namespaces"))
	return root
}

// kubectl sends requests to the API server, and through it to agents.
type kubectl struct {
	a *app
	// flags are --node and the flags that are kubectl's own.
	flags           *pflag.FlagSet
	node, namespace string
}

func (k *kubectl) addFlags() {
	f := k.flags
	f.StringVar(&k.node, "node", "", "ask this node, also about pods that the API server no longer has")
	f.StringVarP(&k.namespace, "namespace", "n", "", "the pod's namespace; empty: that of the kubeconfig's context")
	f.String("kubeconfig", "", "kubectl's: the kubeconfig file")
	f.String("context", "", "kubectl's: the context of the kubeconfig")
	f.String("cluster", "", "kubectl's: the cluster of the kubeconfig")
	f.String("user", "", "kubectl's: the user of the kubeconfig")
	f.String("as", "", "kubectl's: the user to impersonate")
	f.StringArray("as-group", nil, "kubectl's: a group to impersonate; may be repeated")
}

// command returns a command of kubectl. It has the environment of this program: credentials may be there.
func (k *kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	var line []string
	k.flags.VisitAll(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if f.Changed && f.Name != "node" {
				line = append(line, "--"+f.Name+"="+v)
			}
		}
	})
	return exec.CommandContext(ctx, "kubectl", append(line, args...)...) //nolint:gosec // its user's own words
}

// run runs kubectl, and f on what it prints. Its error is kubectl's own, or f's.
func (k *kubectl) run(cmd *exec.Cmd, f func(io.Reader) error) error {
	said := &tail{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return errNoKubectl
	}
	if err != nil {
		return fmt.Errorf("start kubectl: %w", err)
	}
	failed := f(out)
	if failed != nil {
		_ = cmd.Process.Kill() // it has ended
	}
	if err := cmd.Wait(); err != nil && (failed == nil || errors.Is(failed, io.ErrUnexpectedEOF)) {
		return childError(said.String(), err)
	}
	return failed
}

// output returns a short text that kubectl prints.
func (k *kubectl) output(ctx context.Context, args ...string) (out []byte, err error) {
	err = k.run(k.command(ctx, args...), func(r io.Reader) error {
		out, err = bounded.ReadAll(r, maxChildAnswer)
		return err
	})
	return out, err
}

// agentPath returns the path of a request to a node's agent.
func agentPath(node, name string, q url.Values) string {
	return "/api/v1/nodes/" + url.PathEscape(node) + "/proxy/journal/" + name + "?" + q.Encode()
}

// request calls f with what a node's agent responds.
func (k *kubectl) request(ctx context.Context, node, name string, q url.Values, f func(io.Reader) error) error {
	err := k.run(k.command(ctx, "get", "--raw", agentPath(node, name, q)), f)
	// kubectl's texts for 404 and 405 without a Status of ours.
	for _, text := range []string{"the server could not find the requested resource", "the server does not allow this"} {
		if err != nil && strings.Contains(err.Error(), text) {
			return fmt.Errorf("node %s has no journal to ask: its agent is a kubelet, or Journalet before this version, "+
				"or enableDebuggingHandlers is false there", node)
		}
	}
	return err
}

// nodePod is a pod, and the node that it is or was on. The UID is empty if the API server was not asked; for a static
// pod it is the mirror pod's UID.
type nodePod struct{ node, pod, uid string }

// find finds a pod.
func (k *kubectl) find(ctx context.Context, name string) (at nodePod, err error) {
	name = withoutKind(name)
	if k.node != "" {
		if k.namespace != "" && !strings.Contains(name, "/") {
			name = k.namespace + "/" + name
		}
		return nodePod{node: k.node, pod: name}, nil
	}
	args := []string{"get", "pod", "-o",
		"jsonpath={.metadata.namespace}/{.metadata.name} {.metadata.uid} {.spec.nodeName}"}
	if namespace, short, ok := strings.Cut(name, "/"); ok {
		args = append(args, "--namespace="+namespace, "--", short)
	} else {
		args = append(args, "--", name)
	}
	out, err := k.output(ctx, args...)
	var missing notFoundError
	if errors.As(err, &missing) {
		return at, notFoundError{fmt.Errorf("%w; if it was deleted, name the node that it ran on with --node", err)}
	}
	if err != nil {
		return at, err
	}
	if n, _ := fmt.Sscan(string(out), &at.pod, &at.uid, &at.node); n < 3 {
		return at, fmt.Errorf("pod %s is not bound to a node: `kubectl describe pod` shows what its scheduler says", at.pod)
	}
	return at, nil
}

// completeNames returns the completion of names of a resource.
func (k *kubectl) completeNames(resource string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		out, err := k.output(ctx, "get", resource, "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return strings.Fields(string(out)), cobra.ShellCompDirectiveNoFileComp
	}
}

// completePods completes the first argument.
func (k *kubectl) completePods(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return k.completeNames("pods")(cmd, args, typed)
}

// childError returns the error of a kubectl that has failed, with our exit codes.
func childError(said string, err error) error {
	text := strings.TrimSpace(said)
	if text == "" {
		return fmt.Errorf("kubectl: %w", err)
	}
	_, reason, found := strings.Cut(text, "Error from server (")
	reason, message, closed := strings.Cut(reason, "): ")
	switch {
	case !found || !closed, reason == "ServiceUnavailable", reason == "Timeout":
		return noAgentError{fmt.Errorf("kubectl: %s", text)}
	case reason == "NotFound":
		return notFoundError{errors.New(message)}
	case reason == "BadRequest":
		return usageError{errors.New(message)}
	case reason == "Forbidden":
		return fmt.Errorf("%s (this plugin needs `get` of `nodes/proxy`)", message)
	}
	return fmt.Errorf("kubectl: %s", text)
}

// tail keeps the last bytes that are written.
type tail struct{ bytes.Buffer }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.Buffer.Write(b)
	if more := t.Len() - maxChildErrors; more > 0 {
		t.Next(more)
	}
	return len(b), nil
}

// bundle calls f while a bundle of a pod is the journal that commands read. It is in a file that only the user
// can read, and removed.
func (k *kubectl) bundle(ctx context.Context, at nodePod, f func() error) error {
	dir, err := os.MkdirTemp("", "journalet-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "bundle.journalet")
	defer func() {
		_ = os.Remove(file)
		_ = os.Remove(dir)
	}()
	if err := k.download(ctx, at, file, false); err != nil {
		return err
	}
	k.a.journal = file
	return f()
}

// download writes a bundle of a pod to a file.
func (k *kubectl) download(ctx context.Context, at nodePod, file string, replace bool) error {
	return writeNew(file, replace, func(w io.Writer) error {
		return k.request(ctx, at.node, "export", url.Values{"pod": {at.pod}}, func(r io.Reader) error {
			n, err := io.Copy(w, io.LimitReader(r, maxBundle+1))
			if n > maxBundle {
				return fmt.Errorf("node %s sends more than %s for pod %s", at.node, describe.Size(int64(maxBundle)), at.pod)
			}
			return err
		})
	})
}
