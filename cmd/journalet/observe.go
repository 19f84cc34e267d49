package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

const formatText = "text"

type observeOptions struct {
	from             uint64
	since            time.Duration
	filter           history.Filter
	follow, noFollow bool
}

func (a *app) observeCommand() *cobra.Command {
	var o observeOptions
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Show the agent's observations and decisions, past and live",
		Long: "Show the journal's events as they are recorded, each decision with its cause. Without --from and --since\n" +
			"it shows new events; with --no-follow, all events so far. After a restart of the agent it reconnects and\n" +
			"continues: no event is missing and none is shown twice.\n\n" +
			"With -o json each line is one event. Plain NATS clients get the same on the subjects event.> of the bus.\n\n" +
			"Events: " + strings.Join(history.EventNames(), ", "),
		Example: "  journalet observe\n" +
			"  journalet observe --pod web --since 10m\n" +
			"  journalet observe --event call_finished --kind pod --from 1 --no-follow\n" +
			"  journalet observe --from 1042 -o json | jq .data",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("from") && cmd.Flags().Changed("since") {
				return usagef("--from and --since exclude each other")
			}
			if o.since < 0 {
				return usagef("--since is %s: want a positive duration, such as 10m", o.since)
			}
			if cmd.Flags().Changed("follow") && o.follow && o.noFollow {
				return usagef("--follow and --no-follow exclude each other")
			}
			if err := o.filter.Check(); err != nil {
				return usageError{err}
			}
			o.follow = o.follow && !o.noFollow
			return a.withClient(cmd.Context(), o.follow, func(c *query.Client) error { return a.observe(cmd.Context(), c, o) })
		},
	}
	kinds := []string{"agent", "source", "pod", "runtime", "node", "image"}
	f := cmd.Flags()
	f.Uint64Var(&o.from, "from", 0, "start with this record")
	f.DurationVar(&o.since, "since", 0, "start with the events of this last period, such as 10m")
	f.StringVarP(&o.filter.Namespace, "namespace", "n", "", "only events about pods of this namespace")
	f.StringSliceVar(&o.filter.Pods, "pod", nil, "only events about this pod: its name, namespace/name or UID; may be repeated")
	f.Uint64Var(&o.filter.Cause, "cause", 0, "only this record and what it led to: decisions, the calls they request and the\n"+
		"timers they set, and so on; begins there unless --from or --since is given")
	f.StringVar(&o.filter.Author, "author", "", "only events of this actor, as kind/id")
	f.StringVar(&o.filter.Kind, "kind", "", "only events of this kind of actor: "+strings.Join(kinds, ", "))
	f.StringSliceVar(&o.filter.Events, "event", nil, "only events with this name; may be repeated")
	f.BoolVarP(&o.filter.Quiet, "quiet", "q", false, "without the actors' timers, unless --event names them")
	f.BoolVarP(&o.follow, "follow", "f", true, "continue with new events")
	f.BoolVar(&o.noFollow, "no-follow", false, "stop at the journal's end")
	complete(cmd, "event", cobra.FixedCompletions(history.EventNames(), cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "pod", a.completePods)
	return a.clientFlags(cmd, formatText, formatJSON)
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

func (a *app) printJSON(f messages.Flat) error {
	b, err := json.Marshal(&f)
	if err != nil {
		return fmt.Errorf("print record %d: %w", f.Seq, err)
	}
	_, err = fmt.Fprintln(a.out, string(b))
	return err
}

// eventView prints events as text.
type eventView struct {
	a        *app
	ctx      context.Context
	d        *describe.Describer
	renderer *describe.Renderer
	colour   bool
}

func newEventView(ctx context.Context, a *app, c *query.Client) *eventView {
	v := &eventView{a: a, ctx: ctx, d: describe.New(), colour: a.out.colour()}
	v.renderer = describe.NewRenderer(v.d, c.Lines)
	// Without names pods are shown by their UIDs.
	if pods, err := c.Pods(ctx, ""); err == nil {
		for i := range pods.Items {
			v.d.Name(string(pods.Items[i].UID), pods.Items[i].Namespace, pods.Items[i].Name)
		}
	}
	return v
}

func (v *eventView) print(f messages.Flat) error {
	l := v.renderer.Render(v.ctx, f)
	who := f.Author
	if r, err := messages.ParseRef(f.Author); err == nil {
		who = v.d.Actor(r)
	}
	text := painted{text: l.Text}
	if isAlert(l) {
		text.code = red
	}
	gap := painted{text: "  "}
	return v.a.out.paint(v.colour, painted{dim, clock(v.a.now(), f.Time)}, gap, painted{dim, fmt.Sprintf("#%-6d", f.Seq)},
		gap, painted{bold, fmt.Sprintf("%-16s", who)}, gap, painted{text: fmt.Sprintf("%-22s  ", f.Event)}, text,
		painted{dim, causeSuffix(l)})
}

// isAlert reports whether an event needs attention.
func isAlert(l describe.Line) bool {
	return l.Event == "quarantined" || l.Event == "journal_damaged" ||
		strings.HasPrefix(l.Text, "failed") || strings.HasPrefix(l.Text, "rejected")
}
