package main

import (
	"context"
	"fmt"
	"path/filepath"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/cluster"
)

// Names of the agents in the results.
const (
	oursName    = "journalet"
	kubeletName = "kubelet"
)

// agent is a node agent as a process of the cluster.
type agent struct {
	*cluster.Cluster
	node, program string
	args          []string
}

// newAgent writes what an agent reads: the configuration of a kubelet, also for ours, and a kubeconfig with an issued
// certificate.
func (b *bench) newAgent(name, node string) (*agent, error) {
	config, err := b.KubeletConfig(cluster.Node{Name: node, Endpoint: b.endpoint})
	if err != nil {
		return nil, err
	}
	kubeconfig, err := b.Node(node)
	if err != nil {
		return nil, err
	}
	in := func(name string) string { return filepath.Join(b.NodeDir(node), name) }
	args := []string{"--config", config, "--kubeconfig", kubeconfig, "--root-dir", in("root"),
		"--hostname-override", node, "--node-ip", b.Address}
	if name == oursName {
		args = append([]string{"run", "--container-log-dir", in("links")}, args...)
		return &agent{b.Cluster, node, b.program, args}, nil
	}
	return &agent{b.Cluster, node, b.kubelet, append(args, "--cert-dir", in("pki"))}, nil
}

// start starts the agent and returns when its Node is ready, which an earlier run may have left so.
func (a *agent) start(ctx context.Context) error {
	return a.StartNode(ctx, a.node, a.program, a.args...)
}

// pid returns the agent's process id.
func (a *agent) pid() (int, error) {
	pid, err := a.RunningNode(a.node)
	if err == nil && pid == 0 {
		err = fmt.Errorf("the agent has ended; the end of its log:\n%s", a.TailNode(a.node))
	}
	return pid, err
}

// schedulable returns an error while taints keep pods away from the Node.
func (a *agent) schedulable(ctx context.Context) error {
	client, err := a.Client()
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, a.node, meta.GetOptions{})
	if err == nil && len(node.Spec.Taints) > 0 {
		err = fmt.Errorf("the Node has the taints %v", node.Spec.Taints)
	}
	return err
}
