package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/history/why"
)

func (a *app) pluginWhyCommand(k *kubectl) *cobra.Command {
	q := why.Query{}
	cmd := &cobra.Command{
		Use:   "why POD|SEQ",
		Short: "Explain why a pod is as it is, why a container was restarted, or why a record was written",
		Long: "Explain why a pod is as it is: its state, what it follows from, and where the time of its start went. With\n" +
			"--container: why that container was restarted. With --node and the number of a record of that node's\n" +
			"journal: the causes of what it holds.",
		Example: "  kubectl journalet why web-7d4b9\n" +
			"  kubectl journalet why shop/web-7d4b9 --container app --restart 3\n" +
			"  kubectl journalet why web-7d4b9 --node n1       # the pod was deleted\n" +
			"  kubectl journalet why 1042 --node n1 --all",
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: k.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := whyQuery(cmd, args[0], &q); err != nil {
				return err
			}
			at := nodePod{node: k.node}
			switch {
			case q.Seq > 0 && at.node == "":
				return usagef("%s is a record of a node's journal: name the node with --node", args[0])
			case q.Seq == 0:
				var err error
				if at, err = k.find(cmd.Context(), args[0]); err != nil {
					return err
				}
				q.Pod = at.pod
			}
			answer, err := k.why(cmd.Context(), at.node, q)
			if err != nil {
				return err
			}
			return a.printAnswer(answer)
		},
	}
	whyFlags(cmd.Flags(), &q)
	return a.outputFlag(cmd, formatText, formatJSON, formatYAML)
}

// why sends a query to a node's agent.
func (k *kubectl) why(ctx context.Context, node string, q why.Query) (*why.Answer, error) {
	values := url.Values{}
	for name, value := range map[string]string{
		"pod": q.Pod, "uid": q.UID, "container": q.Container, "seq": digits(q.Seq), "restart": digits(uint64(q.Restart)),
		"all": yes(q.All),
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	answer := &why.Answer{}
	err := k.request(ctx, node, "why", values, func(r io.Reader) error {
		b, err := bounded.ReadAll(r, maxAnswer)
		if err != nil || len(b) == 0 { // kubectl says why
			return err
		}
		return bounded.JSON(b, maxAnswer, answer)
	})
	return answer, err
}

// digits returns a number, "" for 0, and yes returns "true", "" for false: a parameter that is not given.
func digits(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func yes(on bool) string {
	if on {
		return "true"
	}
	return ""
}

func (a *app) pluginTimelineCommand(k *kubectl) *cobra.Command {
	var o timelineOptions
	cmd := &cobra.Command{
		Use:   "timeline POD",
		Short: "Draw a pod's past",
		Long: "Draw a pod's past as lanes over time: its phase, sandbox, containers, probes, pulls and calls, with what\n" +
			"needs attention listed below. With --file it writes one page for a browser, with zoom, filters, each event and\n" +
			"its causes. The page needs no network and loads nothing.\n\n" +
			"The node's agent is asked for what it knows of the pod among its newest 500,000 records.",
		Example: "  kubectl journalet timeline web-7d4b9\n" +
			"  kubectl journalet timeline web-7d4b9 --since 1h\n" +
			"  kubectl journalet timeline web-7d4b9 --file web.html && xdg-open web.html",
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: k.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkTimeline(cmd, &o); err != nil {
				return err
			}
			at, err := k.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return k.bundle(cmd.Context(), at, func() error { return a.timeline(cmd.Context(), []string{at.pod}, o) })
		},
	}
	return a.timelineFlags(cmd, &o)
}

func (a *app) pluginExportCommand(k *kubectl) *cobra.Command {
	var file string
	var force bool
	cmd := &cobra.Command{
		Use:   "export POD -o FILE",
		Short: "Write what a node's journal knows of a pod to one file",
		Long: "Write a bundle: one file with the records that concern a pod among the newest 500,000 of its node, and\n" +
			"those that led to them. Every command of journalet that reads a journal reads it by --journal FILE. The file\n" +
			"holds the pod with the values of its env: keep it as secret as its manifest.",
		Example: "  kubectl journalet export web-7d4b9 -o web.journalet\n" +
			"  journalet trace web --journal web.journalet",
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: k.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usagef("name the file to write: -o FILE")
			}
			if err := mayWrite(file, force); err != nil {
				return err
			}
			at, err := k.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := k.download(cmd.Context(), at, file, force); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s: pod %s on node %s\nRead it: journalet why %s --journal %s\n", file, at.pod, at.node,
				at.pod, file)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "output", "o", "", "file to write, with permission 0600")
	f.BoolVar(&force, "force", false, "replace the file if it exists")
	_ = cmd.MarkFlagFilename("output") // fails only for an unknown flag
	return cmd
}

// pluginLogsCommand returns what passes its whole command line on: the agent answers kubectl logs with what it knows.
func pluginLogsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logs POD",
		Short: "Print the logs of a container: `kubectl logs`",
		Long: "Print the logs of a container, as `kubectl logs` does, with its flags: the agent answers it with the file\n" +
			"that is written and those that were rotated from it.",
		Example:            "  kubectl journalet logs web-7d4b9 -c app -f --tail 20",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := exec.LookPath("kubectl")
			if err != nil {
				return errNoKubectl
			}
			return unix.Exec(path, append([]string{"kubectl", "logs"}, args...), os.Environ())
		},
	}
}
