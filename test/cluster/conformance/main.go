package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/cluster/images"
)

// options are the command line.
type options struct {
	list                                            string
	agent, program, endpoint, certs, lab, out, page string
	only, skip                                      string
	shards                                          int
}

func main() {
	var o options
	flag.StringVar(&o.list, "list", nodes, "which specs: specs, of a node, storage or hostpath, of CSI drivers")
	flag.StringVar(&o.agent, "agent", "journalet", "what runs the node: journalet or kubelet")
	flag.StringVar(&o.program, "program", "bin/journalet", "the program of journalet")
	flag.StringVar(&o.endpoint, "endpoint", os.Getenv("LAB_ENDPOINT"), "CRI endpoint of a lab")
	flag.StringVar(&o.certs, "certs", filepath.Join(os.Getenv("LAB_HOME"), "certs.d"), "directory of the lab's registries")
	flag.StringVar(&o.lab, "images", filepath.Join(os.Getenv("LAB_DIR"), "images"), "directory of the lab's images")
	flag.StringVar(&o.out, "out", "", "directory for logs and reports")
	flag.StringVar(&o.page, "page", "", "page to write; empty: none")
	flag.StringVar(&o.only, "only", "", "run only specs that match this regular expression")
	flag.StringVar(&o.skip, "skip", "", "leave out specs that match this regular expression")
	flag.IntVar(&o.shards, "shards", 4, "specs at the same time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// The lists of specs: of a node, of CSI drivers that the specs bring along, and of a CSI driver that has volumes.
const (
	nodes    = "specs"
	storage  = "storage"
	hostpath = "hostpath"
)

// node is the name of the Node that the specs run on.
const node = "conformance"

func run(ctx context.Context, o options) (failed error) {
	specs, err := selected(o.list, o.only, o.skip)
	if err != nil {
		return err
	}
	programs, err := cluster.Provide(ctx, cluster.E2E, cluster.Agnhost, cluster.Nonewprivs)
	if err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	dir := filepath.Join(o.out, "cluster")
	if err := cluster.Remove(dir); err != nil { // of a run before, kept for its logs
		return err
	}
	root, remove, err := rootDir(o.list, filepath.Join(dir, "node-"+node, "root"))
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, remove()) }()
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, c.Stop()) }()
	stop, err := serve(ctx, o, programs, net.JoinHostPort(c.Address, strconv.Itoa(c.APIPort)))
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, stop()) }()
	if err := join(ctx, c, o, root); err != nil {
		return err
	}
	results := runShards(ctx, shard(specs, o.shards), runner{
		program: filepath.Join(programs, string(cluster.E2E)), kubeconfig: c.Admin(), out: o.out, root: root,
	})
	version, err := versions(context.WithoutCancel(ctx), c) // an interrupted run, too, has results
	if err != nil {
		return err
	}
	if o.page != "" {
		if err := writePage(o.page, o.list, version, results); err != nil {
			return err
		}
	}
	return summary(os.Stdout, results)
}

// join starts the node, which keeps what it has in a directory root.
func join(ctx context.Context, c *cluster.Cluster, o options, root string) error {
	n := cluster.Node{Name: node, Endpoint: o.endpoint, Issued: true, Flags: []string{"--root-dir", root}}
	if o.agent == "kubelet" {
		return c.StartKubelet(ctx, n)
	}
	program, err := filepath.Abs(o.program)
	if err != nil {
		return err
	}
	return c.StartAgent(ctx, program, n)
}

// serve builds the images and serves them to the lab. api is where pods reach the API server.
func serve(ctx context.Context, o options, programs, api string) (func() error, error) {
	root, err := cluster.Checkout()
	if err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	list.Dir = filepath.Join(root, "test", "cluster", "upstream")
	source, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("find the module k8s.io/kubernetes: %w", err)
	}
	bash, err := staticBash(ctx, programs)
	if err != nil {
		return nil, err
	}
	shell := filepath.Join(o.out, "sh")
	//nolint:gosec // a path of ours
	build := exec.CommandContext(ctx, "go", "build", "-o", o.out, "./test/cluster/images/sh",
		"./test/cluster/images/hostpath", "./test/cluster/images/livenessprobe", "./test/cluster/images/registrar")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the programs of the images: %w\n%s", err, out)
	}
	parts := images.Parts{Lab: o.lab, Programs: programs, Source: strings.TrimSpace(string(source)), Bash: bash,
		Shell: shell}
	if o.list != nodes {
		if parts.Sidecars, err = cluster.Sidecars(ctx); err != nil {
			return nil, err
		}
		parts.Drivers, parts.API = o.out, api
	}
	all, err := images.All(parts)
	if err != nil {
		return nil, err
	}
	return images.Serve(ctx, all, o.certs)
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

// versions returns what the Node reports about its software.
func versions(ctx context.Context, c *cluster.Cluster) (string, error) {
	out, err := c.Command(ctx, "get", "node", node, "-o",
		"jsonpath={.status.nodeInfo.kubeletVersion}, {.status.nodeInfo.containerRuntimeVersion}, "+
			"{.status.nodeInfo.osImage}, Linux {.status.nodeInfo.kernelVersion}").Output()
	return string(out), err
}

// pattern compiles an expression of the command line; an empty one matches nothing.
func pattern(text string) (func(string) bool, error) {
	if text == "" {
		return func(string) bool { return false }, nil
	}
	r, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return r.MatchString, nil
}
