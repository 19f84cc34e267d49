package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/clock"
)

const (
	// callTimeout bounds one RPC. kubelet: 2 min.
	callTimeout = 2 * time.Minute
	// maxCalls bounds the RPCs of one driver at once. The kubelet has no bound; a driver that hangs holds so many.
	maxCalls = 32
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 1 << 20
	// maxNodeID bounds a node's id, in bytes. storage.k8s.io/v1: CSINodeDriver.
	maxNodeID = 192
	// maxSegments bounds the topology of a node. A driver has three or four.
	maxSegments = 64
)

// Drivers are the CSI drivers that have registered. Its methods may be called concurrently.
type Drivers struct {
	opts DriverOptions

	wake chan struct{}
	// changed receives after a driver has come or gone.
	changed chan struct{}

	mu     sync.Mutex
	byName map[string]*driver
	// gone are the drivers whose socket has gone, and that are to be reported.
	gone map[string]bool
}

// DriverOptions configure Drivers; NewConn must be set.
type DriverOptions struct {
	// NewConn returns a connection to a unix socket. An answer of more than maxBytes is an error.
	NewConn func(path string, maxBytes int) (*grpc.ClientConn, error)
	// Registered reports a driver for the CSINode, with the node's topology as the driver has it. An error fails the
	// registration, which is repeated. May be nil: then there is no CSINode, and NodeGetInfo is not called.
	Registered func(ctx context.Context, d storagev1.CSINodeDriver, topology map[string]string) error
	// Gone reports that a driver's socket has gone, and that none of its name has registered since. It is not called when
	// the agent ends. May be nil.
	Gone func(ctx context.Context, name string)
	// Updated reports the count of volumes that a driver can have on this node by now, for the CSINode; nil: no limit. An
	// error has it reported again after the driver's period. May be nil with Periods nil.
	Updated func(ctx context.Context, name string, now *storagev1.VolumeNodeResources) error
	// Periods has how often the count of each driver is read again; nil: never.
	Periods Periods
	// Clock is for these reads. Default: the machine's.
	Clock clock.Clock
	Log   *slog.Logger
}

// driver is a registered driver.
type driver struct {
	name, endpoint string
	conn           *grpc.ClientConn
	slots          chan struct{}
	stats          chan struct{} // has an element for each measurement under way
	// updates has an element while the count is being read again. It guards what follows: what the CSINode has, and
	// whether the last read has failed.
	updates  chan struct{}
	node     storagev1.CSINodeDriver
	outdated bool
}

// NewDrivers returns Drivers without any.
func NewDrivers(o DriverOptions) *Drivers {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	return &Drivers{opts: o, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), byName: map[string]*driver{},
		gone: map[string]bool{}}
}

// Validate returns why a driver cannot be used, as long as it is as it is; nil: it can.
func (d *Drivers) Validate(name string, versions []string) error {
	if why := validation.IsDNS1123Subdomain(strings.ToLower(name)); len(why) > 0 || len(name) > 63 {
		return fmt.Errorf("%.64q cannot be the name of a CSI driver: at most 63 letters, digits, '-' and '.'", name)
	}
	if !slices.ContainsFunc(versions, func(v string) bool {
		return v == "1" || strings.HasPrefix(strings.TrimPrefix(v, "v"), "1.")
	}) {
		return fmt.Errorf("CSI driver %s supports the versions %.64q; this node needs one of 1.x", name, versions)
	}
	return nil
}

// Register begins to use a driver. It replaces one of the same name.
func (d *Drivers) Register(ctx context.Context, name, endpoint string) error {
	conn, err := d.opts.NewConn(endpoint, maxAnswer)
	if err != nil {
		return err
	}
	n := &driver{name: name, endpoint: endpoint, conn: conn, slots: make(chan struct{}, maxCalls),
		stats: make(chan struct{}, maxStats), updates: make(chan struct{}, 1)}
	if d.opts.Registered != nil {
		node, topology, err := n.info(ctx)
		n.node = node
		if err == nil {
			err = d.opts.Registered(ctx, node, topology)
		}
		if err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	d.mu.Lock()
	before := d.byName[name]
	d.byName[name] = n
	delete(d.gone, name)
	d.mu.Unlock()
	signal(d.changed)
	if before != nil {
		d.close(before)
	}
	return nil
}

// Deregister ends the use of a driver whose socket has gone, unless another one has registered under its name. RPCs
// under way end.
func (d *Drivers) Deregister(name, endpoint string) {
	d.mu.Lock()
	before := d.byName[name]
	if before == nil || before.endpoint != endpoint {
		d.mu.Unlock()
		return
	}
	delete(d.byName, name)
	d.gone[name] = true
	d.mu.Unlock()
	d.close(before)
	signal(d.wake)
	signal(d.changed)
}

// signal leaves a token for who waits; one is enough.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// goneAfter is how long a driver has to register again before it is reported as gone: an update of it takes seconds,
// and the scheduler counts by the CSINode.
const goneAfter = 10 * time.Second

// Run reports drivers that have gone, and how many volumes the others can have on this node, until ctx ends.
func (d *Drivers) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var updates sync.WaitGroup
	defer updates.Wait()
	defer cancel()
	if d.opts.Periods != nil {
		updates.Go(func() { d.runUpdates(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
		}
		t := time.NewTimer(goneAfter)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
		d.reportGone(ctx)
	}
}

func (d *Drivers) reportGone(ctx context.Context) {
	d.mu.Lock()
	names := slices.Sorted(maps.Keys(d.gone))
	clear(d.gone)
	d.mu.Unlock()
	for _, name := range names {
		if d.opts.Gone != nil {
			d.opts.Gone(ctx, name)
		}
	}
}

func (d *Drivers) close(n *driver) {
	if err := n.conn.Close(); err != nil {
		d.opts.Log.Debug("the connection to a CSI driver was not closed", "driver", n.name, "error", err)
	}
}

// Caller implements Callers.
func (d *Drivers) Caller(name string) (Caller, error) {
	n, err := d.get(name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// get returns a registered driver.
func (d *Drivers) get(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.byName[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers (%s)", name,
		strings.Join(slices.Sorted(maps.Keys(d.byName)), ", "))
}

// info requests what a driver knows of this node.
func (n *driver) info(ctx context.Context) (node storagev1.CSINodeDriver, topology map[string]string, err error) {
	r, err := n.getInfo(ctx)
	if err != nil {
		return node, nil, err
	}
	topology = r.GetAccessibleTopology().GetSegments()
	switch {
	case r.GetNodeId() == "" || len(r.GetNodeId()) > maxNodeID:
		return node, nil, fmt.Errorf("CSI driver %s has a node id of %d bytes; a CSINode takes from 1 to %d",
			n.name, len(r.GetNodeId()), maxNodeID)
	case len(topology) > maxSegments:
		return node, nil, fmt.Errorf("CSI driver %s has a topology of %d segments; at most %d are taken",
			n.name, len(topology), maxSegments)
	}
	node = storagev1.CSINodeDriver{Name: n.name, NodeID: r.GetNodeId()}
	for _, k := range slices.Sorted(maps.Keys(topology)) {
		if why := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(topology[k])...); len(why) > 0 {
			return node, nil, fmt.Errorf("CSI driver %s has a topology that cannot be a label: %.64q=%.64q: %s",
				n.name, k, topology[k], why[0])
		}
		node.TopologyKeys = append(node.TopologyKeys, k)
	}
	node.Allocatable = allocatable(r)
	return node, topology, nil
}

func (n *driver) getInfo(ctx context.Context) (r *csi.NodeGetInfoResponse, err error) {
	err = n.Call(ctx, "NodeGetInfo", func(ctx context.Context, c csi.NodeClient) (err error) {
		r, err = c.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
		return err
	})
	return r, err
}

// allocatable returns how many volumes a driver can have on this node; nil: the driver says 0, which stands for no
// limit, or a number that is no count.
func allocatable(r *csi.NodeGetInfoResponse) *storagev1.VolumeNodeResources {
	most := r.GetMaxVolumesPerNode()
	if most <= 0 || most > math.MaxInt32 {
		return nil
	}
	return &storagev1.VolumeNodeResources{Count: ptr.To(int32(most))}
}

// Call implements Caller. It waits for a slot of the driver.
func (n *driver) Call(ctx context.Context, what string, f func(context.Context, csi.NodeClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return fmt.Errorf("%s: CSI driver %s has %d calls under way, and none has ended: %w", what, n.name, maxCalls,
			errNotCalled)
	}
	if err := f(ctx, csi.NewNodeClient(n.conn)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// errNotCalled means that the driver was not called.
var errNotCalled = errors.New("it was not called")

// inDoubt reports whether a failed RPC may have had an effect. An RPC that a driver refuses by its code has had none;
// Internal and Unknown may stand for anything.
func inDoubt(err error) bool {
	if errors.Is(err, errNotCalled) {
		return false
	}
	switch status.Code(unwrapped(err)) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return false
	}
	return true
}

// unwrapped returns the error of gRPC within an error.
func unwrapped(err error) error {
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus().Err()
	}
	return err
}

// capabilities are what a driver can do.
type capabilities struct {
	// stage: it stages volumes. group: it sets the group of a volume. multiWriter: it knows the modes of one writer and of
	// several on one node. stats: it measures volumes. expand: it expands them.
	stage, group, multiWriter, stats, expand bool
}

// capabilitiesOf requests what a driver can do, as the kubelet does each time: a driver may have been replaced.
func capabilitiesOf(ctx context.Context, d Caller) (c capabilities, err error) {
	var r *csi.NodeGetCapabilitiesResponse
	if err := d.Call(ctx, "NodeGetCapabilities", func(ctx context.Context, cl csi.NodeClient) (err error) {
		r, err = cl.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
		return err
	}); err != nil {
		return c, err
	}
	for _, x := range r.GetCapabilities() {
		switch x.GetRpc().GetType() {
		case csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			c.stage = true
		case csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			c.group = true
		case csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			c.multiWriter = true
		case csi.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			c.stats = true
		case csi.NodeServiceCapability_RPC_EXPAND_VOLUME:
			c.expand = true
		default:
		}
	}
	return c, nil
}
