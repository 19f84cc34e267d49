package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// options are the flags of upstream's program that the manifests and tests of this release set.
type options struct {
	name, endpoint, proxy, node, state string
	mutable                            string // names of parameters
	attach, topology, expandNode       bool
	ordered, modify                    bool
	limit                              int64
}

func main() {
	var o options
	flag.StringVar(&o.name, "drivername", "hostpath.csi.k8s.io", "name of the driver")
	flag.StringVar(&o.endpoint, "endpoint", "/csi/csi.sock", "socket of the driver")
	flag.StringVar(&o.proxy, "proxy-endpoint", "", "tcp://ADDRESS: hand connections on to those that come there")
	flag.StringVar(&o.node, "nodeid", "", "name of the node")
	flag.StringVar(&o.state, "statedir", "/csi-data-dir", "directory of the volumes")
	flag.BoolVar(&o.attach, "enable-attach", false, "publish volumes to the node")
	flag.BoolVar(&o.topology, "enable-topology", false, "report and set topology")
	flag.BoolVar(&o.expandNode, "node-expand-required", false, "expand volumes on the node as well")
	flag.Int64Var(&o.limit, "attach-limit", 0, "volumes of the node; 0: no limit")
	flag.Int64Var(&o.limit, "maxvolumespernode", 0, "the same by another name")
	flag.BoolVar(&o.ordered, "check-volume-lifecycle", false, "refuse calls that come before those that they follow")
	flag.BoolVar(&o.modify, "enable-controller-modify-volume", false, "modify volumes")
	flag.StringVar(&o.mutable, "accepted-mutable-parameter-names", "", "parameters of modified volumes, comma-separated")
	flag.Int("v", 0, "taken for upstream's sake, and ignored")
	flag.Parse()
	if o.ordered { // only the specs of this driver ask for it, and expect what is upstream's default
		o.topology, o.expandNode = true, true
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostpath:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	socket := strings.TrimPrefix(o.endpoint, "unix://")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if o.proxy != "" {
		inner, err := net.Listen("tcp", strings.TrimPrefix(o.proxy, "tcp://"))
		if err != nil {
			return err
		}
		return proxy(ctx, l, inner)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(write))
	d := &driver{options: o, volumes: map[string]*volume{}}
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, &node{driver: d})
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(l)
}

// topologyKey is the key that upstream's driver uses; its tests read it.
const topologyKey = "topology.hostpath.csi/node"

func (o options) where() *csi.Topology {
	if !o.topology {
		return nil
	}
	return &csi.Topology{Segments: map[string]string{topologyKey: o.node}}
}
