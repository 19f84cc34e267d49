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
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/journalet/journalet/test/fakecsi"
)

// options are the flags of upstream's program that the manifests and tests of this release set.
type options struct {
	name, endpoint, proxy, node, state string
	attach, topology, expandNode       bool
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
	flag.Int("v", 0, "taken for upstream's sake, and ignored")
	flag.Parse()
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
	d := &driver{options: o, sizes: map[string]int64{}}
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, o.nodeService())
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(l)
}

// nodeService is the driver's part on a node.
func (o options) nodeService() *fakecsi.Driver {
	capabilities := []csi.NodeServiceCapability_RPC_Type{fakecsi.Stage, fakecsi.Stats}
	if o.expandNode {
		capabilities = append(capabilities, fakecsi.Expand)
	}
	return &fakecsi.Driver{Dir: o.state, Capabilities: capabilities, Usage: fakecsi.Measured, Before: vacate,
		Info: &csi.NodeGetInfoResponse{NodeId: o.node, MaxVolumesPerNode: o.limit, AccessibleTopology: o.where()}}
}

// vacate removes what a pod has left at a path before it is unpublished, as upstream's driver does: mounts within this
// container are not seen outside of it, so that pods write into the directory below them.
func vacate(_ context.Context, _ string, request any) error {
	r, ok := request.(*csi.NodeUnpublishVolumeRequest)
	if !ok {
		return nil
	}
	err := unix.Unmount(r.GetTargetPath(), unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", r.GetTargetPath(), err)
	}
	return os.RemoveAll(r.GetTargetPath())
}

// topologyKey is that of upstream's driver, which tests read.
const topologyKey = "topology.hostpath.csi/node"

func (o options) where() *csi.Topology {
	if !o.topology {
		return nil
	}
	return &csi.Topology{Segments: map[string]string{topologyKey: o.node}}
}
