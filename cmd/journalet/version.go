package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/agent"
)

type versionInfo struct {
	Version       string `json:"version"`
	JournalFormat int    `json:"journalFormat"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show this binary's version",
		Example: "  journalet version\n  journalet version -o json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{agent.Version, messages.JournalFormat, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if a.output != formatTable {
				return printValue(a.out, a.output, v)
			}
			fmt.Fprintf(a.out, "journalet %s (journal format %d, %s, %s)\n", v.Version, v.JournalFormat, v.Go, v.Platform)
			return nil
		},
	}
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}
