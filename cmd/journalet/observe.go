package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
)

const formatText = "text"

type observeOptions struct {
	from             uint64
	since            time.Duration
	filter           query.Filter
	follow, noFollow bool
}

func (a *app) observeCommand() *cobra.Command {
	var o observeOptions
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Show what the agent learns and decides, past and live",
		Long: "Show the journal's events as they come, each decision with what it follows from. Without --from and --since it\n" +
			"shows what comes from now on; with --no-follow, what is there. The connection is found again after a restart of the\n" +
			"agent and goes on where it was: no event is left out and none is shown twice.\n\n" +
			"With -o json each line is one event. Plain NATS clients get the same on the subjects event.> of the bus.\n\n" +
			"Events: " + strings.Join(query.EventNames(), ", "),
		Example: "  journalet observe\n" +
			"  journalet observe --pod web --since 10m\n" +
			"  journalet observe --event call_finished --kind pod --from 1 --no-follow\n" +
			"  journalet observe --from 1042 -o json | jq .data",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("from") && cmd.Flags().Changed("since") {
				return usagef("--from and --since exclude each other: both say where to begin")
			}
			if o.since < 0 {
				return usagef("--since is %s: want how long ago, such as 10m", o.since)
			}
			if cmd.Flags().Changed("follow") && o.follow && o.noFollow {
				return usagef("--follow and --no-follow exclude each other")
			}
			if err := o.filter.Check(); err != nil {
				return usageError{err}
			}
			o.follow = o.follow && !o.noFollow
			return a.ask(cmd.Context(), o.follow, func(c *query.Client) error { return a.observe(cmd.Context(), c, o) })
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.from, "from", 0, "begin with this record")
	f.DurationVar(&o.since, "since", 0, "begin with what happened so long ago, such as 10m")
	f.StringVar(&o.filter.Pod, "pod", "", "only events about this pod: its name, namespace/name or UID")
	f.StringVar(&o.filter.Kind, "kind", "", "only events under this kind of actor: agent, source, pod, runtime, node, image")
	f.StringVar(&o.filter.Event, "event", "", "only events of this name")
	f.BoolVarP(&o.follow, "follow", "f", true, "go on with what comes")
	f.BoolVar(&o.noFollow, "no-follow", false, "end at the journal's end")
	_ = cmd.RegisterFlagCompletionFunc("event", cobra.FixedCompletions(query.EventNames(), cobra.ShellCompDirectiveNoFileComp))                                            // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"agent", "source", "pod", "runtime", "node", "image"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("pod", a.completePods)                                                                                                              // the flag is there
	return a.asking(cmd, formatText, formatJSON)
}

func (a *app) observe(ctx context.Context, c *query.Client, o observeOptions) error {
	q := query.WatchRequest{From: o.from, All: !o.follow, Filter: o.filter, Follow: o.follow, Notice: a.notice}
	if o.since > 0 {
		q.Since = a.now().Add(-o.since)
	}
	show := a.printJSON
	if a.output == formatText {
		v := newEventView(ctx, a, c)
		show = v.print
	}
	err := c.Watch(ctx, q, show)
	if o.follow {
		return interrupted(ctx, err)
	}
	return err
}

func (a *app) printJSON(f bus.Flat) error {
	b, err := json.Marshal(&f)
	if err != nil {
		return fmt.Errorf("print record %d: %w", f.Seq, err)
	}
	_, err = fmt.Fprintln(a.out, string(b))
	return err
}

// eventView prints events in words.
type eventView struct {
	a      *app
	ctx    context.Context
	d      *query.Describer
	teller *query.Renderer
	colour bool
}

func newEventView(ctx context.Context, a *app, c *query.Client) *eventView {
	v := &eventView{a: a, ctx: ctx, d: query.NewDescriber(), colour: colour(a.out)}
	v.teller = query.NewRenderer(v.d, c.Record)
	// Names are a help only: without them pods go by their UIDs.
	if pods, err := c.Pods(ctx, ""); err == nil {
		for i := range pods.Items {
			v.d.Name(string(pods.Items[i].UID), pods.Items[i].Namespace, pods.Items[i].Name)
		}
	}
	return v
}

const (
	dim    = "\x1b[2m"
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	normal = "\x1b[0m"
)

func (v *eventView) paint(code, s string) string {
	if !v.colour || s == "" {
		return s
	}
	return code + s + normal
}

func (v *eventView) print(f bus.Flat) error {
	l := v.teller.Render(v.ctx, f)
	who := f.Author
	if r, err := messages.ParseRef(f.Author); err == nil {
		who = v.d.Actor(r)
	}
	text := l.Text
	if bad(l) {
		text = v.paint(red, text)
	}
	_, err := fmt.Fprintf(v.a.out, "%s  %s  %s  %-20s  %s%s\n", v.paint(dim, clock(v.a.now(), f.Time)), v.paint(dim, fmt.Sprintf("#%-6d", f.Seq)),
		v.paint(bold, fmt.Sprintf("%-16s", who)), f.Event, text, v.paint(dim, because(l)))
	return err
}

// bad tells whether an event is one that people should not overlook.
func bad(l query.Line) bool {
	return l.Event == "quarantined" || l.Event == "journal_damaged" || strings.HasPrefix(l.Text, "failed") || strings.HasPrefix(l.Text, "reject")
}
