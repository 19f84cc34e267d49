package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/cluster/images"
)

// host is all that runs on this machine for the specs: machines with labs, a control plane, a registry, and nodes.
type host struct {
	options
	dir      string // of the cluster
	machines []cluster.Machine
	roots    []string // root directories of the nodes
	address  string   // of this machine, for pods
	cluster  *cluster.Cluster
	closers  []func(context.Context) error
}

// twoNodes is how many nodes a whole cluster has: Kubernetes' conformance wants two that pods may be scheduled to.
const twoNodes = 2

func nodeName(i int) string { return fmt.Sprintf("conformance-%d", i+1) }

// newHost makes the machines. Without a whole cluster, there is one: this machine, with the lab of the options.
func newHost(ctx context.Context, o options) (*host, error) {
	h := &host{options: o, dir: filepath.Join(o.out, "cluster"), address: "127.0.0.1"}
	if err := cluster.Remove(h.dir); err != nil { // of a run before, kept for its logs
		return h, err
	}
	if !o.wholeCluster() {
		h.machines = []cluster.Machine{{Endpoint: o.endpoint, Registry: o.registry, Images: o.images}}
	}
	if o.list == e2eNode {
		h.roots = []string{kubeletRoot}
		return h, nil
	}
	if !o.wholeCluster() {
		root, remove, err := rootDir(o.list)
		h.roots = []string{root}
		h.closers = append(h.closers, func(context.Context) error { return remove() })
		return h, err
	}
	network, err := cluster.NewNetwork(ctx, h.dir)
	if err != nil {
		return h, err
	}
	h.address = network.Address
	h.closers = append(h.closers, network.Remove)
	for i := range twoNodes {
		progress("machine %d of %d, with a lab of its own", i+1, twoNodes)
		machine, err := network.Join(ctx, fmt.Sprintf("%s-%d", o.lab, i+1))
		if err != nil {
			return h, err
		}
		h.machines = append(h.machines, *machine)
		h.roots = append(h.roots, filepath.Join(h.dir, "node-"+nodeName(i), "root"))
	}
	return h, nil
}

// runner returns what runs the specs of a cluster or of one node.
func (h *host) runner(programs string) runner {
	r := runner{program: filepath.Join(programs, string(h.tests())), suite: clusterSuite, dir: h.out, out: h.out,
		workers: h.workers}
	if h.list == e2eNode {
		r.program, r.suite, r.dir, r.env = h.nodePath("bin/"+nodeTests), nodeSuite, h.dir, h.nodeEnv()
		r.args = append(h.nodeArgs(), "--start-services=false", "--stop-services=false")
		return r
	}
	r.args = []string{"--provider=local", "--kubeconfig=" + h.cluster.Admin(),
		"--kubectl-path=" + filepath.Join(programs, string(cluster.Kubectl)),
		"--num-nodes=" + strconv.Itoa(len(h.machines)), "--disable-log-dump", "--kubelet-root-dir=" + h.roots[0]}
	return r
}

// versions returns what the first Node reports about its software.
func (h *host) versions(ctx context.Context, programs string) (string, error) {
	out, err := h.kubectl(ctx, programs, "get", "nodes", "-o", "jsonpath={.items[0].status.nodeInfo.kubeletVersion}, "+
		"{.items[0].status.nodeInfo.containerRuntimeVersion}, {.items[0].status.nodeInfo.osImage}, "+
		"Linux {.items[0].status.nodeInfo.kernelVersion}").Output()
	return strings.TrimSpace(string(out)), err
}

// kubectl returns a command with a client of the API server.
func (h *host) kubectl(ctx context.Context, programs string, args ...string) *exec.Cmd {
	kubeconfig := h.nodePath("kubeconfig") // of upstream's harness
	if h.cluster != nil {
		kubeconfig = h.cluster.Admin()
	}
	return exec.CommandContext(ctx, filepath.Join(programs, string(cluster.Kubectl)), //nolint:gosec // ours
		append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
}

// close stops and removes everything, the last first.
func (h *host) close(ctx context.Context) error {
	var errs error
	for _, c := range slices.Backward(h.closers) {
		errs = errors.Join(errs, c(ctx))
	}
	return errs
}

// start starts the control plane, the registry, the nodes, and what a whole cluster has beside them.
func (h *host) start(ctx context.Context, programs string) error {
	if h.list == e2eNode {
		return h.startNode(ctx, programs)
	}
	o := cluster.Options{Dir: h.dir}
	if h.wholeCluster() {
		o.Address = h.address
	}
	progress("control plane")
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	h.cluster = c
	h.closers = append(h.closers, func(context.Context) error { return c.Stop() })
	progress("images")
	if err := h.serve(ctx, programs); err != nil {
		return err
	}
	for i := range h.machines {
		progress("node %s", nodeName(i))
		if err := h.join(ctx, i); err != nil {
			return err
		}
	}
	if !h.wholeCluster() {
		return nil
	}
	progress("kube-proxy and CoreDNS")
	return c.InstallAddons(ctx)
}

// join starts the agent of a machine.
func (h *host) join(ctx context.Context, i int) error {
	n := cluster.Node{Name: nodeName(i), Endpoint: h.machines[i].Endpoint, Machine: h.machines[i], Issued: true,
		Flags: []string{"--root-dir", h.roots[i]}}
	if h.wholeCluster() {
		n.Config = fmt.Sprintf("clusterDNS: [%s]\nclusterDomain: cluster.local", cluster.ClusterDNS)
	}
	if h.agent == kubelet {
		return h.cluster.StartKubelet(ctx, n)
	}
	return h.cluster.StartAgent(ctx, h.program, n)
}

// serve builds the images and serves them to the labs.
func (h *host) serve(ctx context.Context, programs string) error {
	parts, err := h.parts(ctx, programs)
	if err != nil {
		return err
	}
	all, err := images.All(parts)
	if err != nil {
		return err
	}
	registries := make([]string, len(h.machines))
	for i, m := range h.machines {
		registries[i] = m.Registry
	}
	stop, err := images.Serve(ctx, all, h.address, registries...)
	if err == nil {
		h.closers = append(h.closers, func(context.Context) error { return stop() })
	}
	return err
}

// parts builds what the images are made of.
func (h *host) parts(ctx context.Context, programs string) (images.Parts, error) {
	p := images.Parts{Lab: h.machines[0].Images, Programs: programs,
		Shell: filepath.Join(h.out, "sh"), Tools: filepath.Join(h.out, "tools")}
	root, err := cluster.Checkout()
	if err != nil {
		return p, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	list.Dir = filepath.Join(root, "test", "cluster", "upstream")
	source, err := list.Output()
	if err != nil {
		return p, fmt.Errorf("find the module k8s.io/kubernetes: %w", err)
	}
	p.Source = strings.TrimSpace(string(source))
	if p.Bash, err = staticBash(ctx, programs); err != nil {
		return p, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", h.out) //nolint:gosec // a path of ours
	for _, program := range []string{"sh", "tools", "hostpath", "livenessprobe", "registrar"} {
		build.Args = append(build.Args, "./test/cluster/images/"+program)
	}
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return p, fmt.Errorf("build the programs of the images: %w\n%s", err, out)
	}
	if h.wholeCluster() {
		p.DNS, err = cluster.DNS(ctx)
		return p, err
	}
	if h.list == e2eNode {
		return p, nil
	}
	p.Drivers, p.API = h.out, net.JoinHostPort(h.cluster.Address, strconv.Itoa(h.cluster.APIPort))
	p.Sidecars, err = cluster.Sidecars(ctx)
	return p, err
}

// staticBash unpacks Debian's bash-static into a directory, once, and returns the path of the program.
func staticBash(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "bash-static", "bin", "bash-static")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	work, err := os.MkdirTemp(dir, "bash-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }() // in the cache
	get := exec.CommandContext(ctx, "sh", "-c", "apt-get download -q bash-static || "+
		"{ apt-get update -q && apt-get download -q bash-static; }; dpkg-deb -x bash-static_*.deb unpacked")
	get.Dir = work
	if out, err := get.CombinedOutput(); err != nil {
		return "", fmt.Errorf("get Debian's bash-static: %w\n%s", err, out)
	}
	return path, os.Rename(filepath.Join(work, "unpacked"), filepath.Join(dir, "bash-static"))
}

// progress says on standard error what begins now.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "conformance: "+format+"\n", args...)
}
