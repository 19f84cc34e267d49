package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// batchDelay is how long `pods -w` waits after an event for more, before it lists the pods again.
const batchDelay = 150 * time.Millisecond

type podsOptions struct {
	namespace string
	all       bool
	watch     bool
	noHeaders bool
}

func (a *app) podsCommand() *cobra.Command {
	var o podsOptions
	cmd := &cobra.Command{
		Use:     "pods",
		Aliases: []string{"po", "ps"},
		Short:   "List the pods of this node",
		Long: "List the pods of this node as `kubectl get pods` does, by default of all namespaces.\n\n" +
			"For a pod with status Quarantined a decision failed: its containers keep running, but the agent takes no more\n" +
			"decisions for it until its quarantine ends. `journalet pod NAME` shows the error; `journalet lift NAME` and a\n" +
			"change of its manifest try again.",
		Example: "  journalet pods\n" +
			"  journalet pods -o wide\n" +
			"  journalet pods -n kube-system -w\n" +
			"  journalet pods -o json | jq '.items[].status.podIP'",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.all && o.namespace != "" {
				return usagef("--namespace and --all-namespaces exclude each other")
			}
			if o.watch && a.output != formatTable && a.output != formatWide {
				return usagef("--watch prints tables only: want -o table or wide")
			}
			return a.withClient(cmd.Context(), o.watch, func(c *query.Client) error { return a.pods(cmd.Context(), c, o) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "only pods of this namespace")
	f.BoolVarP(&o.all, "all-namespaces", "A", false,
		"pods of all namespaces, with a namespace column (default: only if there are several)")
	f.BoolVarP(&o.watch, "watch", "w", false, "continue with the pods that change")
	f.BoolVar(&o.noHeaders, "no-headers", false, "print no headings")
	return a.clientFlags(cmd, formatTable, formatWide, formatJSON, formatYAML, formatName)
}

func (a *app) pods(ctx context.Context, c *query.Client, o podsOptions) error {
	pods, err := c.Pods(ctx, o.namespace)
	if err != nil {
		return err
	}
	switch a.output {
	case formatJSON, formatYAML:
		return printValue(a.out, a.output, listOf(pods))
	case formatName:
		for i := range pods.Items {
			fmt.Fprintln(a.out, "pod/"+podName(&pods.Items[i]))
		}
		return nil
	}
	t := &podTable{
		table: table{w: a.out}, wide: a.output == formatWide, node: c.Node(), namespaces: o.all || namespaces(pods) > 1,
	}
	if len(pods.Items) == 0 && !o.watch {
		where := "on node " + c.Node()
		if o.namespace != "" {
			where = "in namespace " + o.namespace + " " + where
		}
		fmt.Fprintln(a.err, "No pods "+where+".")
		a.manifestProblems(ctx, c)
		return nil
	}
	t.show(a.now(), pods, !o.noHeaders)
	a.manifestProblems(ctx, c)
	if !o.watch {
		return nil
	}
	return a.watchPods(ctx, c, o, t)
}

// shownProblems bounds the problems of manifests that `pods` prints.
const shownProblems = 5

// manifestProblems prints which manifests run no pod: their pods are missing in the table.
func (a *app) manifestProblems(ctx context.Context, c *query.Client) {
	list, err := c.Problems(ctx)
	if err != nil {
		return // an agent of 0.1.0 does not know them
	}
	for _, p := range list.Problems[:min(len(list.Problems), shownProblems)] {
		a.notice("manifest " + p.String())
	}
	if more := len(list.Problems) + list.More - shownProblems; more > 0 {
		a.notice(fmt.Sprintf("%d more problems of manifests: journalet validate", more))
	}
}

// listOf returns the list in kubectl's form.
func listOf(pods *corev1.PodList) *corev1.PodList {
	pods.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "List"}
	if pods.Items == nil {
		pods.Items = []corev1.Pod{}
	}
	return pods
}

func namespaces(pods *corev1.PodList) int {
	seen := map[string]bool{}
	for i := range pods.Items {
		if ns := pods.Items[i].Namespace; ns != "" { // an orphan may have none
			seen[ns] = true
		}
	}
	return len(seen)
}

// watchPods lists the pods again after events and prints the rows that changed.
func (a *app) watchPods(ctx context.Context, c *query.Client, o podsOptions, t *podTable) error {
	changed := make(chan struct{}, 1)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		ended <- c.Watch(ctx, query.WatchRequest{Follow: true, Notice: a.notice}, func(messages.Flat) error {
			select {
			case changed <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	for {
		select {
		case err := <-ended:
			return interrupted(ctx, err)
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(batchDelay):
		}
		pods, err := c.Pods(ctx, o.namespace)
		if err == nil {
			t.show(a.now(), pods, false)
			continue
		}
		// After a lost connection the agent's start is the next event: the loop lists again.
		if exitCode(err) != exitNoAgent {
			return interrupted(ctx, err)
		}
	}
}

// interrupted returns nil if the user has ended the command, else err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *app) notice(s string) {
	write := func() { fmt.Fprintln(a.err, "journalet: "+s) }
	if a.above == nil {
		write()
		return
	}
	a.above(write)
}

// podTable prints pods as rows, and later only the pods that changed.
type podTable struct {
	table
	wide, namespaces bool
	node             string
	shown            map[string]string // rows by UID, without ages
}

func (t *podTable) show(now time.Time, pods *corev1.PodList, headings bool) {
	var rows [][]string
	if headings {
		rows = append(rows, t.headings())
	}
	seen := map[string]bool{}
	for i := range pods.Items {
		p := &pods.Items[i]
		seen[string(p.UID)] = true
		s := summarize(p)
		if t.changed(string(p.UID), fmt.Sprintf("%v %v %v", s, p.Status.PodIPs, p.Status.Message)) {
			rows = append(rows, t.row(now, p, &s))
		}
	}
	for uid := range t.shown {
		if !seen[uid] {
			delete(t.shown, uid)
		}
	}
	t.print(rows...)
}

func (t *podTable) changed(uid, what string) bool {
	if t.shown == nil {
		t.shown = map[string]string{}
	}
	before, ok := t.shown[uid]
	t.shown[uid] = what
	return !ok || before != what
}

func (t *podTable) headings() []string {
	h := []string{"NAME", "READY", "STATUS", "RESTARTS", "AGE"}
	if t.namespaces {
		h = append([]string{"NAMESPACE"}, h...)
	}
	if t.wide {
		h = append(h, "IP", "NODE", "SOURCE", "UID")
	}
	return h
}

func (t *podTable) row(now time.Time, p *corev1.Pod, s *podSummary) []string {
	r := []string{podName(p), fmt.Sprintf("%d/%d", s.ready, s.total), s.status, s.restartsText(now),
		age(now, p.CreationTimestamp)}
	if t.namespaces {
		r = append([]string{p.Namespace}, r...)
	}
	if t.wide {
		node := p.Spec.NodeName
		if node == "" {
			node = t.node
		}
		r = append(r, none(p.Status.PodIP), node, none(p.Annotations[manifest.ConfigSourceAnnotation]), string(p.UID))
	}
	return r
}

func none(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

// completePods returns the names of the pods for shell completion.
func (a *app) completePods(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeFromPods(cmd, func(p *corev1.Pod) string { return strings.TrimSpace(podName(p)) })
}

// completeNamespaces returns the namespaces of the pods for shell completion.
func (a *app) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeFromPods(cmd, func(p *corev1.Pod) string { return p.Namespace })
}

// completeFromPods returns what text returns for each pod, sorted, each once.
func (a *app) completeFromPods(cmd *cobra.Command, text func(*corev1.Pod) string) ([]string,
	cobra.ShellCompDirective) {
	var all []string
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	err := a.withClient(ctx, false, func(c *query.Client) error {
		pods, err := c.Pods(ctx, "")
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if s := text(&pods.Items[i]); s != "" {
				all = append(all, s)
			}
		}
		return nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	slices.Sort(all)
	return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
}
