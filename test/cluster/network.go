package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// podRange is where labs take their subnets from (deploy/lab/lib/network.sh).
	podRange = "10.208.0.0/12"
	// namespaces is where `ip netns` keeps network namespaces.
	namespaces = "/run/netns"
	// firstHost is the last byte of the first machine's address; 1 is the bridge's.
	firstHost = 2
)

// Network links the machines of a cluster by a bridge of this machine, as a switch does (ADR 114). Its methods may be
// called by one goroutine at a time.
type Network struct {
	Address string // of this machine on the bridge
	bridge  string // its name, which the names of the namespaces begin with
	prefix  string // the first three bytes of all addresses on the bridge, 198.18.7.
	joined  []*Machine
}

// Machine is where a node runs: a network namespace with a lab of its own. Mounts, processes and cgroups are this
// machine's. The zero value is this machine, without a lab.
type Machine struct {
	Namespace string // path of the network namespace; empty: this machine's
	Address   string // which pods and other machines reach
	Endpoint  string // of the lab's CRI runtime
	Registry  string // directory of the lab's registries
	Images    string // directory of the images that the lab is built with
	lab       string // its name
	pods      string // subnet of its pods
}

// NewNetwork creates a network, in place of one of the same name that was left behind. Its addresses follow from the
// name: a subnet of 198.18.0.0/15, which is for benchmarks of networks (RFC 2544), so that nobody routes it.
func NewNetwork(ctx context.Context, name string) (*Network, error) {
	sum := sha256.Sum256([]byte(name))
	n := &Network{bridge: "jl-" + hex.EncodeToString(sum[:3])}
	n.prefix = fmt.Sprintf("198.%d.%d.", 18+sum[3]%2, sum[4])
	n.Address = n.prefix + "1"
	if err := n.removeLeftovers(ctx); err != nil {
		return nil, err
	}
	return n, n.ip(ctx,
		"link add "+n.bridge+" type bridge", "addr add "+n.Address+"/24 dev "+n.bridge, "link set "+n.bridge+" up")
}

// Join adds a machine, with a lab that has neither pods nor images of an earlier run. The lab takes LAB_CONTAINERD and
// LAB_DIR from the environment.
func (n *Network) Join(ctx context.Context, lab string) (*Machine, error) {
	// There is no way from a machine to where the tools of a lab come from.
	if _, err := (&Machine{lab: lab}).labCommand(ctx, "tools"); err != nil {
		return nil, err
	}
	i := len(n.joined)
	name, link := fmt.Sprintf("%s-%d", n.bridge, i), fmt.Sprintf("%sv%d", n.bridge, i)
	m := &Machine{Namespace: filepath.Join(namespaces, name), Address: fmt.Sprint(n.prefix, firstHost+i), lab: lab}
	n.joined = append(n.joined, m)
	if err := n.ip(ctx,
		"netns add "+name,
		"link add "+link+" type veth peer name eth0 netns "+name,
		"link set "+link+" master "+n.bridge+" up",
		"-n "+name+" addr add "+m.Address+"/24 dev eth0",
		"-n "+name+" link set lo up",
		"-n "+name+" link set eth0 up",
		"-n "+name+" route add default via "+n.Address,
	); err != nil {
		return nil, err
	}
	if err := m.bringUpLab(ctx); err != nil {
		return nil, err
	}
	// Pods reach each other, and are reached from here, under their own addresses.
	routes := []string{"route add " + m.pods + " via " + m.Address}
	for _, other := range n.joined[:i] {
		routes = append(routes, "-n "+filepath.Base(other.Namespace)+" route add "+m.pods+" via "+m.Address,
			"-n "+name+" route add "+other.pods+" via "+other.Address)
	}
	if err := n.ip(ctx, routes...); err != nil {
		return nil, err
	}
	_, err := m.run(ctx, "iptables", "-w", "-t", "nat", "-I", "POSTROUTING", "-s", podRange, "-d", podRange,
		"-j", "ACCEPT")
	return m, err
}

// Remove takes all labs down and removes the network.
func (n *Network) Remove(ctx context.Context) error {
	var errs error
	for _, m := range n.joined {
		_, err := m.labCommand(ctx, "down")
		errs = errors.Join(errs, err)
	}
	return errors.Join(errs, n.removeLeftovers(ctx))
}

// removeLeftovers removes bridge and namespaces. What still runs in a namespace keeps it, without a way out.
func (n *Network) removeLeftovers(ctx context.Context) error {
	left, err := filepath.Glob(filepath.Join(namespaces, n.bridge+"-*"))
	for _, namespace := range left {
		err = errors.Join(err, n.ip(ctx, "netns del "+filepath.Base(namespace)))
	}
	if _, statErr := os.Stat(filepath.Join("/sys/class/net", n.bridge)); !errors.Is(statErr, fs.ErrNotExist) {
		err = errors.Join(err, statErr, n.ip(ctx, "link del "+n.bridge))
	}
	return err
}

// ip runs commands of iproute2.
func (n *Network) ip(ctx context.Context, commands ...string) error {
	for _, command := range commands {
		if _, err := output(exec.CommandContext(ctx, "ip", strings.Fields(command)...)); err != nil { //nolint:gosec // ours
			return err
		}
	}
	return nil
}

// bringUpLab starts the lab anew, and finds out where its parts are.
func (m *Machine) bringUpLab(ctx context.Context) error {
	for _, command := range []string{"down", "up"} {
		if _, err := m.labCommand(ctx, command); err != nil {
			return err
		}
	}
	settings, err := m.labCommand(ctx, "env")
	if err != nil {
		return err
	}
	var home string
	for line := range strings.Lines(settings) { // no value has a character that the script would quote
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		switch name {
		case "LAB_ENDPOINT":
			m.Endpoint = value
		case "LAB_HOME":
			home = value
		case "LAB_DIR":
			m.Images = filepath.Join(value, "images")
		}
	}
	m.Registry = filepath.Join(home, "certs.d")
	subnet, err := os.ReadFile(filepath.Join(home, "subnet"))
	m.pods = strings.TrimSpace(string(subnet))
	return err
}

// labCommand runs a command of the lab's script in the machine, and returns its output.
func (m *Machine) labCommand(ctx context.Context, command string) (string, error) {
	root, err := Checkout()
	if err != nil {
		return "", err
	}
	return m.run(ctx, "env", "LAB_NAME="+m.lab, filepath.Join(root, "deploy", "lab", "lab.sh"), command)
}

// run runs a program in the machine and returns its output.
func (m *Machine) run(ctx context.Context, program string, args ...string) (string, error) {
	program, args = m.command(program, args...)
	return output(exec.CommandContext(ctx, program, args...)) //nolint:gosec // programs of this package
}

// command returns the command line that runs a program in the machine. Its process becomes the program's.
func (m *Machine) command(program string, args ...string) (string, []string) {
	if m.Namespace == "" {
		return program, args
	}
	return "nsenter", append([]string{"--net=" + m.Namespace, "--", program}, args...)
}

// output runs a command and returns its output. An error has what the command says about it.
func output(cmd *exec.Cmd) (string, error) {
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return string(out), nil
}
