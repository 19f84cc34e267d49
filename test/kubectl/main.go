// Command kubectl is kubectl as Kubernetes releases it, for the integration tests: what a person types there has to
// work against this agent. It is a module of its own, so that its dependencies are not the agent's.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
