package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/api/query"
)

func (a *app) podCommand() *cobra.Command {
	q := query.PodRequest{}
	cmd := &cobra.Command{
		Use:   "pod NAME",
		Short: "Show one pod: its state, its events, the latest decisions about it and their causes",
		Long: "Show one pod by its name, namespace/name or UID: its state, its events, and the latest decisions about it,\n" +
			"each with the record that caused it. #N is record N of the journal.",
		Example: "  journalet pod web\n" +
			"  journalet pod kube-system/proxy --decisions 50\n" +
			"  journalet pod web -o yaml",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Pod = args[0]
			if q.Lines < 0 {
				return usagef("--decisions is %d: want 0 or more", q.Lines)
			}
			if q.Lines == 0 || a.output == formatName {
				q.Lines = -1
			}
			return a.withClient(cmd.Context(), false, func(c *query.Client) error {
				r, err := c.Pod(cmd.Context(), q)
				if err != nil {
					return err
				}
				switch a.output {
				case formatJSON, formatYAML:
					return printValue(a.out, a.output, r)
				case formatName:
					fmt.Fprintln(a.out, "pod/"+podName(r.Pod))
					return nil
				}
				(&description{w: a.out, now: a.now(), node: c.Node()}).pod(r)
				return nil
			})
		},
		ValidArgsFunction: a.completePods,
	}
	cmd.Flags().StringVarP(&q.Namespace, "namespace", "n", "", "the pod's namespace, if several pods have the name")
	cmd.Flags().IntVar(&q.Lines, "decisions", 20,
		"number of latest decisions to show, at most 200; 0 shows no events either")
	return a.clientFlags(cmd, formatTable, formatJSON, formatYAML, formatName)
}
