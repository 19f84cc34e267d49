package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/cluster/node"
)

const (
	// kubeletName is the name under which the program takes the kubelet's place (ADR 060).
	kubeletName = "kubelet"
	// kubeletDir is the kubelet's root directory, which kubeadm writes into and empties again.
	kubeletDir = "/var/lib/kubelet"
)

// kubeletCommand returns `journalet run` as the kubelet's callers expect it: with the kubelet's root directory, its
// --version, which kubeadm reads, and underscores for dashes in the names of flags.
func (a *app) kubeletCommand() *cobra.Command {
	a.agentDir = kubeletDir
	cmd := a.runCommand()
	cmd.Use, cmd.Example = kubeletName, ""
	cmd.Long = "Journalet in the kubelet's place: `journalet run`, with " + kubeletDir + " for a root directory.\n" +
		"To query it: JOURNALET_ROOT_DIR=" + kubeletDir + " journalet pods."
	cmd.Version = node.KubeletVersion(agent.Version)
	cmd.SetVersionTemplate("Kubernetes {{.Version}}\n")
	cmd.Flags().SetNormalizeFunc(dashes)
	cmd.CompletionOptions.DisableDefaultCmd = true
	return silent(cmd)
}

// dashes lets a flag's name have underscores, as the kubelet does.
func dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}
