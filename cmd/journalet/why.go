package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history/why"
)

func (a *app) whyCommand() *cobra.Command {
	q := why.Query{}
	cmd := &cobra.Command{
		Use:   "why POD|SEQ",
		Short: "Explain why a pod is as it is, why a container was restarted, or why a record was written",
		Long: "Explain why a pod is as it is: its state, what it follows from, and where the time of its start went. With\n" +
			"--container: why that container was restarted. With the number of a record: the causes of what it holds, up\n" +
			"to a fact from outside, such as a manifest, the exit of a container or the failure of a probe.\n\n" +
			"A pod is named by its name, namespace/name or UID. #N is record N of the journal. The journal's files are\n" +
			"read, of a running agent too; with --server an agent on another machine answers.",
		Example: "  journalet why web\n" +
			"  journalet why web --container app              # its last restart\n" +
			"  journalet why web --container app --restart 3\n" +
			"  journalet why 1042 --all\n" +
			"  journalet why web --journal bundle.journalet -o json",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := whyQuery(cmd, args[0], &q); err != nil {
				return err
			}
			return a.why(cmd, q)
		},
		ValidArgsFunction: a.completePods,
	}
	cmd.Flags().StringVarP(&q.Namespace, "namespace", "n", "", "the pod's namespace, if several pods have the name")
	whyFlags(cmd.Flags(), &q)
	a.journalFlag(cmd)
	return a.clientFlags(cmd, formatText, formatJSON, formatYAML)
}

// whyFlags adds the flags of a query about a pod.
func whyFlags(f *pflag.FlagSet, q *why.Query) {
	f.StringVar(&q.UID, "uid", "", "the pod's UID, if several pods have had the name")
	f.StringVarP(&q.Container, "container", "c", "", "explain a restart of this container")
	f.Uint32Var(&q.Restart, "restart", 0, "with --container: the number of the restart, from 1; the last one if not given")
	f.BoolVar(&q.All, "all", false, "show the whole chain of causes, with the events as they were recorded")
}

// whyQuery completes a query by what the command line names: a record, or a pod.
func whyQuery(cmd *cobra.Command, name string, q *why.Query) error {
	seq, err := strconv.ParseUint(strings.TrimPrefix(name, "#"), 10, 64)
	switch {
	case err == nil && seq > 0:
		q.Seq = seq
	case name == "":
		return usagef("no pod given: want its name, namespace/name or UID, or the number of a record")
	default:
		q.Pod = name
	}
	if q.Seq > 0 && (q.Container != "" || q.UID != "" || q.Namespace != "") {
		return usagef("--container, --uid and --namespace go with a pod, and %s is a record; write "+
			"namespace/%s for a pod of this name", name, name)
	}
	if cmd.Flags().Changed("restart") && (q.Container == "" || q.Restart == 0) {
		return usagef("--restart is the number of a restart, from 1, and needs --container")
	}
	return nil
}

func (a *app) why(cmd *cobra.Command, q why.Query) error {
	ctx := cmd.Context()
	if a.server != "" || a.nkey != "" || a.node != "" {
		if a.journal != "" {
			return usagef("--journal and --server exclude each other")
		}
		return a.withClient(ctx, false, func(c *query.Client) error {
			answer, err := c.Why(ctx, q)
			if err != nil {
				return err
			}
			return a.printAnswer(answer)
		})
	}
	r, err := a.openJournal(ctx)
	if err != nil {
		return err
	}
	answer, err := why.Explain(ctx, r, q)
	var missing *why.NotFoundError
	var several *why.AmbiguousError
	if errors.As(err, &missing) || errors.As(err, &several) {
		return notFoundError{err}
	}
	if err != nil {
		return err
	}
	return a.printAnswer(answer)
}

func (a *app) printAnswer(answer *why.Answer) error {
	if a.output != formatText {
		return printValue(a.out, a.output, answer)
	}
	colour := a.out.colour()
	codes := map[why.Style]string{why.Title: bold, why.Dim: dim, why.Alert: red}
	for _, l := range answer.Text(a.present()) {
		if err := a.out.paint(colour, painted{codes[l.Style], l.Text}); err != nil {
			return err
		}
	}
	return nil
}
