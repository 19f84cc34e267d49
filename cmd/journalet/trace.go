package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/history/trace"
)

const formatOTLP = "otlp-json"

func (a *app) traceCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "trace POD",
		Short: "Print the start of a pod as an OpenTelemetry trace",
		Long: "Print the newest start of a pod as an OpenTelemetry trace, one line of OTLP JSON: what a collector's\n" +
			"otlpjsonfile receiver and Jaeger read. It is the same trace, with the same ids, that a running agent sends\n" +
			"to --tracing-endpoint. A start that has not ended is printed until the last record.\n\n" +
			"A pod is named by its name, namespace/name or UID. The journal's files are read, of a running agent too.",
		Example: "  journalet trace web > web.json\n" +
			"  journalet trace web --all --journal /mnt/copy\n" +
			"  journalet trace web | jq '.resourceSpans[].scopeSpans[].spans[] | .name'",
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: a.completePods,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.trace(cmd.Context(), args[0], all) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "print every start of pods of this name that the journal holds, a line each")
	a.journalFlag(cmd)
	return a.outputFlag(cmd, formatOTLP)
}

func (a *app) trace(ctx context.Context, pod string, all bool) error {
	r, err := a.openJournal(ctx)
	if err != nil {
		return err
	}
	found, err := trace.Read(ctx, r, pod, a.progress("read", "records"))
	a.endProgress()
	if err != nil {
		return err
	}
	starts := found.Starts
	if len(starts) == 0 {
		return notFoundError{fmt.Errorf("the journal holds no start of a pod %s: "+
			"it was never added, or retention has cut its addition", pod)}
	}
	if !all {
		starts = starts[len(starts)-1:]
	}
	for _, s := range starts {
		b, err := trace.JSON(trace.Resource(found.Node, agent.Version, trace.Spans(found.Node, s, found.End)))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.out, "%s\n", b); err != nil {
			return err
		}
	}
	return nil
}
