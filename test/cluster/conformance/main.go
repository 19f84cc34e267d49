package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/journalet/journalet/test/cluster"
)

// options are the command line.
type options struct {
	list                       string
	agent, program             string
	lab, out, page, times      string
	endpoint, registry, images string
	only, skip                 string
	again                      bool
	workers                    int
}

func main() {
	var o options
	flag.StringVar(&o.list, "list", conformance,
		"which specs: conformance, node or e2e-node, by upstream's labels; storage or hostpath, of CSI drivers")
	flag.StringVar(&o.agent, "agent", journalet, "what runs the nodes: journalet or kubelet")
	flag.StringVar(&o.program, "program", "bin/journalet", "the program of journalet")
	flag.StringVar(&o.lab, "lab", os.Getenv("LAB_NAME"), "the labs of two nodes are this name with -1 and -2")
	flag.StringVar(&o.endpoint, "endpoint", os.Getenv("LAB_ENDPOINT"), "CRI endpoint of the lab of one node")
	flag.StringVar(&o.registry, "certs", filepath.Join(os.Getenv("LAB_HOME"), "certs.d"), "directory of its registries")
	flag.StringVar(&o.images, "images", filepath.Join(os.Getenv("LAB_DIR"), "images"), "directory of its images")
	flag.StringVar(&o.out, "out", "", "directory for logs and results")
	flag.StringVar(&o.page, "page", "", "page to write; empty: none")
	flag.StringVar(&o.times, "times", "", "file to write with what each spec took; empty: none")
	flag.StringVar(&o.only, "only", "", "run only specs that match this regular expression")
	flag.StringVar(&o.skip, "skip", "", "leave out specs that match this regular expression")
	flag.BoolVar(&o.again, "again", false, "run specs again that an interrupted run with the same program has passed")
	flag.IntVar(&o.workers, "workers", 8, "specs at the same time; those that are [Serial] run alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// The lists of specs: with upstream's label of conformance, with upstream's label of nodes alone, with the label of
// nodes in upstream's tests of one node, of CSI drivers that the specs bring along, and of a CSI driver that has
// volumes.
const (
	conformance = "conformance"
	nodes       = "node"
	e2eNode     = "e2e-node"
	storage     = "storage"
	hostpath    = "hostpath"
)

// The agents.
const (
	journalet = "journalet"
	kubelet   = "kubelet"
)

func run(ctx context.Context, o options) error {
	if !slices.Contains([]string{journalet, kubelet}, o.agent) {
		return fmt.Errorf("-agent %s: there are journalet and kubelet", o.agent)
	}
	programs, err := provide(ctx, o)
	if err != nil {
		return err
	}
	tests := filepath.Join(programs, string(o.tests()))
	specs, err := selected(ctx, tests, o)
	if err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	if o.agent == kubelet {
		o.program = filepath.Join(programs, string(cluster.Kubelet))
	} else if o.program, err = filepath.Abs(o.program); err != nil {
		return err
	}
	stored, err := openResults(o, tests)
	if err != nil {
		return err
	}
	version, err := runOn(ctx, o, programs, specs, stored)
	if err != nil {
		return err
	}
	results := stored.all(specs)
	if ctx.Err() != nil {
		return errors.Join(summary(os.Stdout, results), errors.New("interrupted; the same command goes on"))
	}
	if o.times != "" {
		err = writeTimes(o.times, results)
	}
	if o.page != "" {
		err = errors.Join(err, writePage(o.page, o.list, version, o.skip, results))
	}
	return errors.Join(err, summary(os.Stdout, results))
}

// provide builds the programs that a run needs, and returns their directory.
func provide(ctx context.Context, o options) (string, error) {
	programs := []cluster.Program{cluster.Kubectl, o.tests(), cluster.Agnhost, cluster.Nonewprivs}
	if o.wholeCluster() {
		programs = append(programs, cluster.KubeProxy, cluster.SampleAPIServer, cluster.StaticEtcd)
	}
	if o.agent == kubelet {
		programs = append(programs, cluster.Kubelet)
	}
	return cluster.Provide(ctx, programs...)
}

// tests returns the program that has the specs.
func (o options) tests() cluster.Program {
	if o.list == e2eNode {
		return cluster.E2ENode
	}
	return cluster.E2E
}

// wholeCluster reports whether the specs need two nodes, Services and DNS.
func (o options) wholeCluster() bool { return o.list == conformance || o.list == nodes }

// runOn starts the cluster, runs the specs that are not stored yet, and stops the cluster. It returns what the first
// Node reports about its software.
func runOn(ctx context.Context, o options, programs string, specs []spec, stored *results) (
	version string, failed error,
) {
	h, err := newHost(ctx, o)
	defer func() { failed = errors.Join(failed, h.close(context.WithoutCancel(ctx))) }()
	if err == nil {
		err = h.start(ctx, programs)
	}
	if err != nil {
		return "", err
	}
	if err := h.runner(programs).runAll(ctx, specs, stored); err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", nil // the results are stored
	}
	return h.versions(ctx, programs)
}
