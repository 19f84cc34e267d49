package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/journal"
	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// followPause is the pause before a stream of events that broke is continued.
	followPause = time.Second
	// firstTry is how long a stream without events has to last to be continued: a stream that fails at once never
	// worked.
	firstTry = 5 * time.Second
)

func (a *app) pluginObserveCommand(k *kubectl) *cobra.Command {
	var o observeOptions
	cmd := &cobra.Command{
		Use:   "observe [POD ...]",
		Short: "Show what a node's agent observes and decides about pods, past and live",
		Long: "Show the events of a node's journal as they are recorded, each decision with its cause: those about pods\n" +
			"of one node, or, with --node and no pod, all of them. Without --from, --since and --cause it shows new\n" +
			"events; with --no-follow, all events so far. Where the connection breaks it continues: no event is missing\n" +
			"and none is shown twice.",
		Example: "  kubectl journalet observe web-7d4b9 --since 10m\n" +
			"  kubectl journalet observe web-7d4b9 --no-follow --event call_requested,call_finished\n" +
			"  kubectl journalet observe --node n1 --kind node --since 1h",
		ValidArgsFunction: k.completeNames("pods"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			node := k.node
			if node == "" && len(args) == 0 {
				return usagef("name a pod, or with --node the node whose events are to be shown")
			}
			for _, arg := range args {
				at, err := k.find(cmd.Context(), arg)
				switch {
				case err != nil:
					return err
				case node != "" && at.node != node:
					return usagef("pod %s is on node %s and the one before on %s: observe one node", at.pod, at.node, node)
				}
				node, o.filter.Pods = at.node, append(o.filter.Pods, at.pod)
				if at.uid != "" { // events may name the pod by its UID alone
					o.filter.Pods = append(o.filter.Pods, at.uid)
				}
			}
			if len(args) == 0 {
				o.filter.Namespace = k.namespace
			}
			return k.observe(cmd.Context(), node, o)
		},
	}
	eventFlags(cmd, &o)
	return a.outputFlag(cmd, formatText, formatJSON, formatCloudEvents)
}

// parameters returns the parameters of a request for events.
func (o *observeOptions) parameters() url.Values {
	values := url.Values{"pod": o.filter.Pods, "event": o.filter.Events}
	for name, value := range map[string]string{
		"namespace": o.filter.Namespace, "kind": o.filter.Kind, "author": o.filter.Author, "quiet": yes(o.filter.Quiet),
		"cause": digits(o.filter.Cause), "from": digits(o.from), "follow": yes(o.follow),
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if o.since > 0 {
		values.Set("since", o.since.String())
	}
	return values
}

// observe prints the events of a node until they end, or, if they are followed, until ctx ends.
func (k *kubectl) observe(ctx context.Context, node string, o observeOptions) error {
	values, begun := o.parameters(), time.Now()
	show, err := k.a.eventPrinter(node)
	if err != nil {
		return err
	}
	s := &events{show: show}
	said := messages.Position{Seq: math.MaxUint64} // where the last cut was that the user knows of
	for {
		err := k.request(ctx, node, "events", values, s.read)
		var lost noAgentError
		switch {
		case o.follow && ctx.Err() != nil:
			return nil
		case !o.follow, err != nil && !errors.As(err, &lost):
			return err
		case s.last.Seq == 0 && time.Since(begun) < firstTry:
			return err
		}
		if said != s.last {
			k.a.notice("lost the connection to the agent of node " + node + "; continuing")
			said = s.last
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followPause):
		}
		switch {
		case s.last.Seq > 0:
			values.Set("from", digits(s.last.Seq))
			values.Del("since")
		case o.from == 0 && o.filter.Cause == 0:
			values.Set("since", (o.since + time.Since(begun) + followPause).String())
		}
	}
}

// eventPrinter returns the function that prints an event of an agent in the chosen format.
func (a *app) eventPrinter(node string) (func(*journal.Event) error, error) {
	if a.output == formatText {
		colour := a.out.colour()
		return func(e *journal.Event) error { return a.paintEvent(colour, e.Actor, e.Line) }, nil
	}
	show, err := a.printer(node, nil)
	return func(e *journal.Event) error { return show(e.Flat) }, err
}

// events prints a stream of events, each once.
type events struct {
	show func(*journal.Event) error
	last messages.Position // of the last event that was printed
}

func (s *events) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var e journal.Event
		if err := bounded.JSON(lines.Bytes(), maxAnswer, &e); err != nil {
			if s.last.Seq > 0 {
				return io.ErrUnexpectedEOF // cut; what is read next begins with it
			}
			return fmt.Errorf("read an event; is the agent of another version? %w", err)
		}
		if !s.last.Before(e.Position()) {
			continue
		}
		if err := s.show(&e); err != nil {
			return err
		}
		s.last = e.Position()
	}
	return lines.Err()
}
