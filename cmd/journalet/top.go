package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/runtime/api/stream"
	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// topPause is the time between two tables of `top --watch`.
	topPause = 2 * time.Second
	// topTimeout bounds one response.
	topTimeout = 10 * time.Second
	// maxSummaryBytes bounds a response, in bytes. A pod has some 500, in the widest form 4 KB.
	maxSummaryBytes = 64 << 20
)

// Views of the summary, which cost the agent no more than what is shown.
const (
	viewTop  = "top"
	viewWide = "wide"
	viewNode = "node"
)

func widthOf(format string) string {
	if format == formatTable {
		return viewTop
	}
	return viewWide
}

// What --sort-by takes.
const (
	sortCPU    = "cpu"
	sortMemory = "memory"
)

type topOptions struct {
	*target
	all, containers, sum, noHeaders, watch bool
	sortBy                                 string
}

func (a *app) topCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [POD]",
		Short: "Show what pods use of CPU and memory",
		Long: "Show what pods use of CPU and memory now, as `kubectl top pods` does, by default of all namespaces.\n\n" +
			"CPU is the average since the last request, of at most a minute; if there was none, of 50 ms. With -o wide there\n" +
			"are also the pressure (the percentage of the last 10 s for which something waited for CPU, memory or I/O), and\n" +
			"the bytes that the pod's interface received and sent.",
		Example: "  journalet top\n" +
			"  journalet top web --containers\n" +
			"  journalet top pods -n kube-system --sort-by=memory --sum\n" +
			"  journalet top -o wide -w\n" +
			"  journalet top node",
		Args: usageArgs(cobra.MaximumNArgs(1)),
	}
	a.topPods(cmd, &o)
	var ofPods topOptions
	pods := &cobra.Command{
		Use: "pods [POD]", Aliases: []string{"pod", "po"}, Short: cmd.Short, Args: usageArgs(cobra.MaximumNArgs(1)),
		Long:    "The same as `journalet top`.",
		Example: "  journalet top pods -n kube-system --sort-by=memory --sum\n  journalet top pod web --containers",
	}
	a.topPods(pods, &ofPods)
	cmd.AddCommand(pods, a.topNodeCommand())
	return cmd
}

// topPods adds the flags and the work of `top` to a command.
func (a *app) topPods(cmd *cobra.Command, o *topOptions) {
	o.target = a.targetFlags(cmd)
	f := cmd.Flags()
	f.BoolVarP(&o.all, "all-namespaces", "A", false,
		"pods of all namespaces, with a namespace column (default: only if there are several)")
	f.BoolVar(&o.containers, "containers", false, "a row for each container")
	f.BoolVar(&o.sum, "sum", false, "add a row with the sum")
	f.StringVar(&o.sortBy, "sort-by", "", "the largest first: "+sortCPU+" or "+sortMemory+"; empty: by namespace and name")
	complete(cmd, "sort-by", cobra.FixedCompletions([]string{sortCPU, sortMemory}, cobra.ShellCompDirectiveNoFileComp))
	a.topFlags(cmd, o)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case o.all && o.namespace != "":
			return usagef("--namespace and --all-namespaces exclude each other")
		case o.sortBy != "" && o.sortBy != sortCPU && o.sortBy != sortMemory:
			return usagef("--sort-by accepts only cpu or memory")
		}
		return a.repeat(cmd.Context(), o, func(ctx context.Context, c *stream.Client, w *screen) error {
			return a.topOnce(ctx, c, w, o, args)
		})
	}
}

// topFlags adds the flags that `top` and `top node` share.
func (a *app) topFlags(cmd *cobra.Command, o *topOptions) {
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print no headings")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "print again every 2 s")
	a.outputFlag(cmd, formatTable, formatWide, formatJSON, formatYAML)
}

// topOnce prints what pods use at one time.
func (a *app) topOnce(ctx context.Context, c *stream.Client, w *screen, o *topOptions, args []string) error {
	if a.output == formatJSON || a.output == formatYAML {
		return a.topValue(ctx, c, w, o, args)
	}
	sum, err := summaryOf[topSummary](ctx, o.target, c, widthOf(a.output))
	if err != nil {
		return err
	}
	uid, err := o.only(ctx, c, args, sum.Node.NodeName, sum.refs())
	if err != nil {
		return err
	}
	sum.Pods = slices.DeleteFunc(sum.Pods, func(p topPod) bool { return o.leavesOut(uid, p.PodRef) })
	if len(sum.Pods) == 0 {
		where := ""
		if o.namespace != "" {
			where = " in namespace " + o.namespace
		}
		fmt.Fprintln(a.err, "No running pods"+where+".")
		return nil
	}
	sum.print(w, o, a.output == formatWide)
	return nil
}

// topValue prints the summary of the pods as JSON or YAML, with all that -o wide shows.
func (a *app) topValue(ctx context.Context, c *stream.Client, w *screen, o *topOptions, args []string) error {
	sum, err := summaryOf[stats.Summary](ctx, o.target, c, viewWide)
	if err != nil {
		return err
	}
	refs := make([]stats.PodReference, len(sum.Pods))
	for i := range sum.Pods {
		refs[i] = sum.Pods[i].PodRef
	}
	uid, err := o.only(ctx, c, args, sum.Node.NodeName, refs)
	if err != nil {
		return err
	}
	sum.Pods = slices.DeleteFunc(sum.Pods, func(p stats.PodStats) bool { return o.leavesOut(uid, p.PodRef) })
	return printValue(w, a.output, &struct {
		Pods []stats.PodStats `json:"pods"`
	}{sum.Pods})
}

func (o *topOptions) leavesOut(uid string, p stats.PodReference) bool {
	return uid != "" && p.UID != uid || o.namespace != "" && p.Namespace != o.namespace
}

// only returns the UID of the pod that was named, "" if none was.
func (o *topOptions) only(
	ctx context.Context, c *stream.Client, args []string, node string, refs []stats.PodReference,
) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	pods := make([]corev1.Pod, len(refs))
	for i, r := range refs {
		pods[i] = corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: types.UID(r.UID)},
			Spec:       corev1.PodSpec{NodeName: node},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	p, err := findPod(pods, o.namespace, args[0])
	if err == nil {
		return string(p.UID), nil
	}
	if known, unknown := o.pod(ctx, c, args[0]); unknown == nil {
		return "", notFoundError{fmt.Errorf("pod %s/%s does not run: `journalet pod %s` shows why",
			known.Namespace, known.Name, known.Name)}
	}
	return "", err
}

// summaryOf requests a summary from the agent.
func summaryOf[T any](ctx context.Context, t *target, c *stream.Client, view string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, topTimeout)
	defer cancel()
	r, err := c.Get(ctx, stream.Path("stats", "summary"), url.Values{"view": {view}})
	if err != nil {
		return nil, t.socketError(err)
	}
	defer r.Body.Close()
	data, err := bounded.ReadAll(r.Body, maxSummaryBytes)
	if err != nil {
		return nil, fmt.Errorf("read the summary: %w", err)
	}
	sum := new(T)
	if err := bounded.JSON(data, maxSummaryBytes, sum); err != nil {
		return nil, fmt.Errorf("read the summary: the response is none: %w", err)
	}
	return sum, nil
}

// repeat prints once or, with --watch, again and again: on a terminal in the same place.
func (a *app) repeat(
	ctx context.Context, o *topOptions, show func(context.Context, *stream.Client, *screen) error,
) error {
	c := o.client()
	defer c.Close()
	if !o.watch {
		return show(ctx, c, a.out)
	}
	if a.output != formatTable && a.output != formatWide {
		return usagef("--watch prints tables only: want -o table or wide")
	}
	every := time.NewTicker(topPause)
	defer every.Stop()
	for first := true; ; first = false {
		var text strings.Builder
		if err := show(ctx, c, &screen{&text}); err != nil {
			return interrupted(ctx, err)
		}
		switch {
		case a.out.terminal():
			a.out.fill(text.String(), first)
		case first:
			fmt.Fprint(a.out, text.String())
		default:
			fmt.Fprint(a.out, "\n"+text.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// compareUse orders by what --sort-by names, the largest first.
func compareUse(by string, cpuA, memA, cpuB, memB uint64) int {
	switch by {
	case sortCPU:
		return cmp.Compare(cpuB, cpuA)
	case sortMemory:
		return cmp.Compare(memB, memA)
	}
	return 0
}
