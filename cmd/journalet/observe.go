package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/cloudevents"
	"github.com/journalet/journalet/runtime/history/describe"
)

const (
	formatText        = "text"
	formatCloudEvents = "cloudevents"
)

type observeOptions struct {
	from             uint64
	since            time.Duration
	filter           history.Filter
	follow, noFollow bool
}

const observeLong = `Show the journal's events as they are recorded, each decision with its cause. Without --from,
--since and --cause it shows new events; with --no-follow, all events so far. After a restart of the agent it
reconnects and continues: no event is missing and none is shown twice.

Filters are combined: an event is shown if it passes all of them. --cause shows one record and what it led to.
On a terminal failures are red, warnings yellow, and milestones of pods and the agent green; NO_COLOR=1 turns
colours off.

With -o json each line is one event, with -o cloudevents one CloudEvent 1.0 (CNCF). Plain NATS clients get the former on
the subjects event.> of the bus.

Events: `

func (a *app) observeCommand() *cobra.Command {
	var o observeOptions
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Show the agent's observations and decisions, past and live",
		Long:  observeLong + strings.Join(history.EventNames(), ", "),
		Example: "  journalet observe\n" +
			"  journalet observe --pod web --pod api --since 10m --quiet\n" +
			"  journalet observe --namespace shop --event pod_status_changed,probe_result\n" +
			"  journalet observe --cause 1042                # what record 1042 led to, so far and from now on\n" +
			"  journalet observe --kind node --from 1 --no-follow\n" +
			"  journalet observe --journal web.bundle --event call_finished\n" +
			"  journalet observe --from 1042 -o json | jq .data\n" +
			"  journalet observe -o cloudevents | while read -r e; do curl -sd \"$e\" -H 'Content-Type: " +
			"application/cloudevents+json' $SINK; done",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkObserve(cmd, &o); err != nil {
				return err
			}
			if a.journal != "" || a.server == "" && !o.follow && a.onlyFiles() {
				return a.observeJournal(cmd.Context(), o)
			}
			return a.withClient(cmd.Context(), o.follow, func(c *query.Client) error { return a.observe(cmd.Context(), c, o) })
		},
	}
	a.observeFlags(cmd, &o)
	return a.clientFlags(cmd, formatText, formatJSON, formatCloudEvents)
}

func (a *app) observeFlags(cmd *cobra.Command, o *observeOptions) {
	f := cmd.Flags()
	f.StringVarP(&o.filter.Namespace, "namespace", "n", "", "only events about pods of this namespace")
	f.StringSliceVar(&o.filter.Pods, "pod", nil,
		"only events about this pod: its name, namespace/name or UID; may be repeated")
	eventFlags(cmd, o)
	a.journalFlag(cmd)
	f.Lookup("journal").Usage = "show the events of these files instead of an agent's: a root directory,\n" +
		"a copy of one, or a bundle"
	complete(cmd, "pod", a.completePods)
	complete(cmd, "namespace", a.completeNamespaces)
}

// eventFlags adds the flags that choose events of any pod.
func eventFlags(cmd *cobra.Command, o *observeOptions) {
	kinds := []string{"agent", "source", "pod", "runtime", "node", "image"}
	f := cmd.Flags()
	f.Uint64Var(&o.from, "from", 0, "start with this record")
	f.DurationVar(&o.since, "since", 0, "start with the events of this last period, such as 10m")
	f.Uint64Var(&o.filter.Cause, "cause", 0, "only this record and what it led to: decisions, outcomes of the\n"+
		"calls that they request, timers that they set, and so on. Starts there")
	f.StringVar(&o.filter.Kind, "kind", "", "only events of this kind of actor: "+strings.Join(kinds, ", "))
	f.StringVar(&o.filter.Author, "author", "", "only events of this actor, as kind/id, such as source/file")
	f.StringSliceVar(&o.filter.Events, "event", nil, "only events with this name; may be repeated")
	f.BoolVarP(&o.filter.Quiet, "quiet", "q", false, "hide the actors' timers, unless --event names them")
	f.BoolVarP(&o.follow, "follow", "f", true, "continue with new events")
	f.BoolVar(&o.noFollow, "no-follow", false, "stop at the journal's end")
	complete(cmd, "event", cobra.FixedCompletions(history.EventNames(), cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) checkObserve(cmd *cobra.Command, o *observeOptions) error {
	switch {
	case a.journal != "" && cmd.Flags().Changed("follow") && o.follow:
		return usagef("--journal reads files, to which no events are added: leave out --follow")
	case a.journal != "" && a.server != "":
		return usagef("--journal and --server exclude each other")
	}
	err := o.check(cmd)
	o.follow = o.follow && a.journal == ""
	return err
}

// check checks what eventFlags has added.
func (o *observeOptions) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case changed("from") && changed("since"):
		return usagef("--from and --since exclude each other")
	case o.since < 0:
		return usagef("--since is %s: want a positive duration, such as 10m", o.since)
	case changed("follow") && o.follow && o.noFollow:
		return usagef("--follow and --no-follow exclude each other")
	case changed("cause") && o.filter.Cause == 0:
		return usagef("--cause is 0: want the number of a record, as observe prints it after #")
	}
	if err := o.filter.Check(); err != nil {
		return usageError{err}
	}
	o.follow = o.follow && !o.noFollow
	return nil
}

func (a *app) observe(ctx context.Context, c *query.Client, o observeOptions) error {
	q := query.WatchRequest{From: o.from, All: !o.follow, Filter: o.filter, Follow: o.follow, Notice: a.notice}
	if o.since > 0 {
		q.Since = a.now().Add(-o.since)
	}
	show, err := a.printer(c.Node(), func() *eventView { return newEventView(ctx, a, c) })
	if err != nil {
		return err
	}
	err = c.Watch(ctx, q, show)
	if o.follow {
		return interrupted(ctx, err)
	}
	return err
}

// printer returns the function that prints an event in the chosen format.
func (a *app) printer(node string, view func() *eventView) (func(messages.Flat) error, error) {
	switch a.output {
	case formatJSON:
		return func(f messages.Flat) error { return a.printLine(f.Seq, &f) }, nil
	case formatCloudEvents:
		if node == "" {
			return nil, errors.New("the journal does not name its node, which a CloudEvent needs: use -o json")
		}
		return func(f messages.Flat) error { return a.printLine(f.Seq, cloudevents.New(node, f)) }, nil
	}
	return view().print, nil
}

// printLine prints an event as JSON on one line.
func (a *app) printLine(seq uint64, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print record %d: %w", seq, err)
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
	v := &eventView{a: a, ctx: ctx, d: c.Names(ctx), colour: a.out.colour()}
	v.renderer = describe.NewRenderer(v.d, c.Lines)
	return v
}

func (v *eventView) print(f messages.Flat) error {
	l := v.renderer.Render(v.ctx, f)
	who := f.Author
	if r, err := messages.ParseRef(f.Author); err == nil {
		who = v.d.Actor(r)
	}
	return v.a.paintEvent(v.colour, who, l)
}

// paintEvent prints an event as text: who decided it, or whom it is about, and what it says.
func (a *app) paintEvent(colour bool, who string, l describe.Line) error {
	event, _ := history.Event(&l.Flat)
	text := painted{text: l.Text, code: tone(event)}
	gap := painted{text: "  "}
	return a.out.paint(colour, painted{dim, clock(a.now(), l.Time)}, gap, painted{dim, fmt.Sprintf("#%-6d", l.Seq)},
		gap, painted{bold, fmt.Sprintf("%-16s", who)}, gap, painted{text: fmt.Sprintf("%-22s  ", l.Event)}, text,
		painted{dim, causeSuffix(l)})
}
