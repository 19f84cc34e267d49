package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeletConfig runs the kubelet of the same release on a machine like CI's: with cgroup v1. It neither removes images
// nor evicts for want of disk: other tests share both. A kubelet 1.37 without cgroups of pods panics at a resize.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: %q
podLogsDir: %q
volumePluginDir: %q
port: %d
healthzPort: %d
cgroupDriver: cgroupfs
cgroupsPerQOS: true
cgroupRoot: %q
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi}
maxPods: 500
%s
`

// agentConfig is the same for our agent, as far as it needs it.
const agentConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
podLogsDir: %q
port: %d
cgroupDriver: cgroupfs
cgroupsPerQOS: true
cgroupRoot: %q
enforceNodeAllocatable: []
rotateCertificates: true
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi}
maxPods: 500
%s
`

// Node is a node agent that is started on this machine: a kubelet, or ours.
type Node struct {
	Name     string // of the Node object
	Endpoint string // of its CRI runtime, which no other agent may use
	Machine  Machine
	Config   string // more lines of a kubelet's configuration file
	Flags    []string
	// Issued has our agent start with a client certificate of its node, as a kubelet does, instead of a bootstrap token.
	Issued bool
}

// NodeDir returns the directory with all that a node of this machine keeps.
func (c *Cluster) NodeDir(name string) string { return c.file(processOf(name)) }

// StartKubelet starts the kubelet of the same release as a node of this cluster, and returns when its Node is ready.
func (c *Cluster) StartKubelet(ctx context.Context, n Node) error {
	programs, err := Provide(ctx, Kubelet)
	if err != nil {
		return err
	}
	flags, err := c.KubeletFlags(n)
	if err != nil {
		return err
	}
	program, flags := n.Machine.command(filepath.Join(programs, string(Kubelet)), flags...)
	return c.StartNode(ctx, n.Name, program, flags...)
}

// KubeletFlags writes the files of a node's kubelet, and returns its command line.
func (c *Cluster) KubeletFlags(n Node) ([]string, error) {
	config, err := c.KubeletConfig(n)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.Node(n.Name)
	if err != nil {
		return nil, err
	}
	dir := c.NodeDir(n.Name)
	return append([]string{"--config", config,
		"--kubeconfig", kubeconfig, "--root-dir", filepath.Join(dir, "root"), "--cert-dir", filepath.Join(dir, "pki"),
		"--hostname-override", n.Name, "--node-ip", cmp.Or(n.Machine.Address, c.Address)}, n.Flags...), nil
}

// KubeletConfig writes the configuration file of a node's kubelet, which our agent reads, too, and returns its path.
// The node gets a directory, a cgroup and ports of its own.
func (c *Cluster) KubeletConfig(n Node) (string, error) {
	dir := c.NodeDir(n.Name)
	var port, healthz int
	cgroup, err := c.NewCgroup(n.Name)
	if err := errors.Join(err, os.MkdirAll(dir, 0o700), freePorts(dir, &port, &healthz)); err != nil {
		return "", err
	}
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(kubeletConfig, c.CA(), n.Endpoint, filepath.Join(dir, "logs"), filepath.Join(dir, "plugins"), port,
		healthz, cgroup, n.Config)
	return config, os.WriteFile(config, []byte(text), 0o600)
}

// NewCgroup creates a cgroup for the pods of a node, so that several nodes may be on one machine, and returns its path
// in each hierarchy. It stays: the next cluster at this port has it again.
func (c *Cluster) NewCgroup(node string) (string, error) {
	const mount = "/sys/fs/cgroup"
	name := fmt.Sprintf("/jl-cluster-%d-%s", c.APIPort, node)
	dirs := []string{mount}
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil { // cgroup v1
		var err error
		if dirs, err = filepath.Glob(filepath.Join(mount, "*")); err != nil {
			return "", err
		}
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil { //nolint:gosec // as all cgroups
			return "", fmt.Errorf("create a cgroup for the node %s: %w; run as root", node, err)
		}
	}
	return name, nil
}

// StartAgent starts a program of ours as a node of this cluster, by TLS bootstrap unless its certificate is issued, and
// returns when its Node is ready. One that runs keeps running.
func (c *Cluster) StartAgent(ctx context.Context, program string, n Node) error {
	if pid, err := c.RunningNode(n.Name); pid != 0 || err != nil {
		return err
	}
	if err := c.SpawnAgent(program, n); err != nil {
		return err
	}
	return c.waitForNode(ctx, n.Name)
}

// SpawnAgent starts a program of ours, which does not run, as StartAgent does. It waits for nothing, so that the rest
// of the cluster may be away.
func (c *Cluster) SpawnAgent(program string, n Node) error {
	dir := c.NodeDir(n.Name)
	var port int
	cgroup, err := c.NewCgroup(n.Name)
	if err := errors.Join(err, os.MkdirAll(dir, 0o700), freePorts(dir, &port)); err != nil {
		return err
	}
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(agentConfig, c.CA(), filepath.Join(dir, "logs"), port, cgroup, n.Config)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	identity := []string{"--bootstrap-kubeconfig", c.Bootstrap(), "--kubeconfig", filepath.Join(dir, "kubeconfig")}
	if n.Issued {
		kubeconfig, err := c.Node(n.Name)
		if err != nil {
			return err
		}
		identity = []string{"--kubeconfig", kubeconfig}
	}
	program, flags := n.Machine.command(program, append(append([]string{"run", "--config", config,
		"--container-runtime-endpoint", n.Endpoint, "--root-dir", filepath.Join(dir, "root"),
		"--container-log-dir", filepath.Join(dir, "links"), "--hostname-override", n.Name,
		"--node-ip", cmp.Or(n.Machine.Address, c.Address), "--healthz-port", "0"}, identity...), n.Flags...)...)
	return c.spawn(processOf(n.Name), program, flags...)
}

// StartNode starts a node agent as a process of this cluster, and returns when its Node is ready.
func (c *Cluster) StartNode(ctx context.Context, name, program string, args ...string) error {
	if err := c.spawn(processOf(name), program, args...); err != nil {
		return err
	}
	return c.waitForNode(ctx, name)
}

// waitForNode returns when the Node of a node agent that runs is ready, or the agent has ended.
func (c *Cluster) waitForNode(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var ended error
	err := Until(ctx, func() error {
		pid, err := c.RunningNode(name)
		if pid == 0 {
			ended = errors.Join(err, errors.New("it has ended"))
			return nil
		}
		return c.NodeReady(ctx, name)
	})
	if err = errors.Join(err, ended); err != nil {
		return fmt.Errorf("node %s is not ready: %w; the end of its log:\n%s", name, err, c.TailNode(name))
	}
	return nil
}

// processOf returns the name of the process of a node agent.
func processOf(node string) string { return "node-" + node }

// RunningNode returns the pid of a node agent, 0 if it does not run.
func (c *Cluster) RunningNode(name string) (int, error) { return c.running(processOf(name)) }

// KillNode ends a node agent by SIGKILL and returns when it is gone. What starts it starts it again.
func (c *Cluster) KillNode(name string) error {
	return errors.Join(c.signal(processOf(name), syscall.SIGKILL), c.gone(processOf(name)))
}

// TailNode returns the end of the log of a node agent.
func (c *Cluster) TailNode(name string) string { return c.tail(processOf(name)) }

// NodeReady returns an error unless a Node is ready.
func (c *Cluster) NodeReady(ctx context.Context, name string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady {
			if condition.Status == core.ConditionTrue {
				return nil
			}
			return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return errors.New("its Node has no condition Ready")
}

// StopNode ends a node agent of StartNode, and deletes its Node.
func (c *Cluster) StopNode(ctx context.Context, name string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	if err := c.stop(processOf(name)); err != nil {
		return err
	}
	err = client.CoreV1().Nodes().Delete(ctx, name, meta.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
