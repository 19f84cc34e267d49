package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandText is the help of one command. deploy/dist writes a man page of each.
type commandText struct {
	Path    string     `json:"path"` // with its parents: "journalet journal export"
	Usage   string     `json:"usage"`
	Short   string     `json:"short"`
	Long    string     `json:"long,omitempty"`
	Example string     `json:"example,omitempty"`
	Aliases []string   `json:"aliases,omitempty"`
	Flags   []flagText `json:"flags,omitempty"`
}

// flagText is a flag as the help shows it: "-o, --output string", then what it does with its default.
type flagText struct {
	Flag  string `json:"flag"`
	Usage string `json:"usage"`
}

// commandsCommand prints all commands as JSON. It is no promise to users, and no help shows it.
func (a *app) commandsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "commands",
		Short:   "Print the help of all commands as JSON",
		Long:    "Print the help of all commands as JSON, for those who write manuals. Its form may change.",
		Example: "  journalet commands",
		Hidden:  true,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e := json.NewEncoder(a.out)
			e.SetIndent("", "  ")
			return e.Encode(append(commandTexts(cmd.Root()), commandTexts(a.pluginCommand())...))
		},
	}
}

// commandTexts returns a command and all below it, parents first. It leaves out what cobra adds.
func commandTexts(cmd *cobra.Command) []commandText {
	if cmd.Hidden || slices.Contains([]string{"help", "completion"}, cmd.Name()) {
		return nil
	}
	cmd.InitDefaultHelpFlag()
	text := commandText{
		Path: cmd.CommandPath(), Usage: cmd.UseLine(), Short: cmd.Short, Long: cmd.Long, Example: cmd.Example,
		Aliases: cmd.Aliases,
	}
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			text.Flags = append(text.Flags, textOf(f))
		}
	}
	cmd.NonInheritedFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	all := []commandText{text}
	for _, below := range cmd.Commands() {
		all = append(all, commandTexts(below)...)
	}
	return all
}

// textOf takes a flag's lines of the help apart: alone in its set, three spaces are between the flag and its usage.
func textOf(f *pflag.Flag) flagText {
	var alone pflag.FlagSet
	alone.AddFlag(f)
	flag, usage, _ := strings.Cut(strings.TrimSpace(alone.FlagUsages()), "   ")
	return flagText{Flag: flag, Usage: strings.Join(strings.Fields(usage), " ")}
}
