package dra

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/util/validation"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	drabeta "k8s.io/kubelet/pkg/apis/dra/v1beta1"
)

const (
	// callTimeout bounds one call. kubelet: 45 s.
	callTimeout = 45 * time.Second
	// maxAnswer bounds an answer, in bytes. One of all claims of a pod has some KiB.
	maxAnswer = 1 << 20
	// maxNameBytes bounds the name of a driver. resource.k8s.io/v1: DriverNameMaxLength.
	maxNameBytes = 63
	// reconnectPause is the pause before a driver is connected to again that has ended the connection.
	reconnectPause = time.Second
)

// services are the versions of the API that a driver may serve, the preferred one first.
var services = []string{dra.DRAPluginService, drabeta.DRAPluginService}

// Drivers are the DRA drivers that have registered. Its methods may be called concurrently.
type Drivers struct {
	opts DriverOptions

	mu sync.Mutex
	// byName has the instances of a driver in the order of their registration: while a driver is updated, its new
	// instance is there beside the old one.
	byName  map[string][]*driver
	running sync.WaitGroup
}

// DriverOptions configure Drivers; NewConn must be set.
type DriverOptions struct {
	// NewConn returns a connection to a unix socket. An answer of more than maxBytes is an error.
	NewConn func(path string, maxBytes int) (*grpc.ClientConn, error)
	// Health follows the health of the devices of drivers that report it, Slices is notified of drivers that go and come.
	// Both may be nil.
	Health *Health
	Slices *Slices
	// Timeout bounds one call. Default 45 s.
	Timeout time.Duration
	Log     *slog.Logger
}

// driver is an instance of a driver.
type driver struct {
	name, endpoint string
	timeout        time.Duration
	conn           *grpc.ClientConn
	client         dra.DRAPluginClient
	// end ends what follows it.
	end context.CancelFunc
}

// NewDrivers returns Drivers without any.
func NewDrivers(o DriverOptions) *Drivers {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = callTimeout
	}
	return &Drivers{opts: o, byName: map[string][]*driver{}}
}

// Validate returns why a driver cannot be used, as long as it is as it is; nil: it can.
func (d *Drivers) Validate(name string, versions []string) error {
	if why := validation.IsDNS1123Subdomain(name); len(why) > 0 || len(name) > maxNameBytes {
		return fmt.Errorf("%.64q cannot be the name of a DRA driver: at most %d lower case letters, digits, '-' and '.'",
			name, maxNameBytes)
	}
	if serviceOf(versions) == "" {
		return fmt.Errorf("DRA driver %s serves %.64q; this node needs one of %s", name, versions,
			strings.Join(services, ", "))
	}
	return nil
}

// serviceOf returns the preferred service among the services that a driver names; "" if the agent supports none of
// them.
func serviceOf(versions []string) string {
	for _, s := range services {
		if slices.Contains(versions, s) {
			return s
		}
	}
	return ""
}

// Register begins to use an instance of a driver, instead of earlier instances with its name.
func (d *Drivers) Register(name, endpoint string, versions []string) error {
	conn, err := d.opts.NewConn(endpoint, maxAnswer)
	if err != nil {
		return err
	}
	n := &driver{name: name, endpoint: endpoint, timeout: d.opts.Timeout, conn: conn, client: dra.NewDRAPluginClient(conn)}
	if serviceOf(versions) == drabeta.DRAPluginService {
		n.client = drabeta.V1Beta1ClientWrapper{DRAPluginClient: drabeta.NewDRAPluginClient(conn)}
	}
	ctx, end := context.WithCancel(context.Background())
	n.end = end
	d.mu.Lock()
	d.byName[name] = append(d.byName[name], n)
	d.mu.Unlock()
	d.running.Go(func() { d.followConn(ctx, n) })
	if service := healthService(versions); service != "" && d.opts.Health != nil {
		d.running.Go(func() { d.opts.Health.watch(ctx, name, service, conn) })
	}
	return nil
}

// followConn keeps an instance connected, and notes when that changes.
func (d *Drivers) followConn(ctx context.Context, n *driver) {
	n.conn.Connect()
	for state := n.conn.GetState(); n.conn.WaitForStateChange(ctx, state); {
		lost := state == connectivity.Ready
		state = n.conn.GetState()
		d.notify(n.name)
		if state != connectivity.Idle {
			continue
		}
		if lost { // no tight loop if the driver ends its connections at once
			select {
			case <-ctx.Done():
			case <-time.After(reconnectPause):
			}
		}
		n.conn.Connect()
	}
}

// notify notes whether a driver can be called.
func (d *Drivers) notify(name string) {
	if d.opts.Slices == nil {
		return
	}
	if d.Connected(name) {
		d.opts.Slices.come(name)
	} else {
		d.opts.Slices.gone(name)
	}
}

// Connected reports whether an instance of a driver is connected.
func (d *Drivers) Connected(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.byName[name], func(n *driver) bool { return n.conn.GetState() == connectivity.Ready })
}

// Deregister ends the use of an instance whose socket has gone. Its calls under way end.
func (d *Drivers) Deregister(name, endpoint string) {
	d.mu.Lock()
	all := d.byName[name]
	i := slices.IndexFunc(all, func(n *driver) bool { return n.endpoint == endpoint })
	if i < 0 {
		d.mu.Unlock()
		return
	}
	n := all[i]
	if d.byName[name] = slices.Delete(all, i, i+1); len(d.byName[name]) == 0 {
		delete(d.byName, name)
	}
	d.mu.Unlock()
	n.end()
	if err := n.conn.Close(); err != nil {
		d.opts.Log.Debug("the connection to a DRA driver was not closed", "driver", name, "error", err)
	}
	d.notify(name)
}

// Caller returns the instance of a driver that has registered last. One that refuses connections is returned if all do.
func (d *Drivers) Caller(name string) (Caller, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.byName[name]
	for _, n := range slices.Backward(all) {
		if n.conn.GetState() != connectivity.TransientFailure {
			return n, nil
		}
	}
	if len(all) > 0 {
		return all[len(all)-1], nil
	}
	return nil, fmt.Errorf("DRA driver %s is not registered (registered: %s)", name,
		strings.Join(slices.Sorted(maps.Keys(d.byName)), ", "))
}

// Prepare has the driver prepare claims.
func (n *driver) Prepare(
	ctx context.Context, all []*dra.Claim,
) (map[string]*dra.NodePrepareResourceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	r, err := n.client.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: all})
	if err != nil {
		return nil, fmt.Errorf("DRA driver %s: NodePrepareResources: %w", n.name, err)
	}
	return r.GetClaims(), nil
}

// Unprepare has the driver undo Prepare.
func (n *driver) Unprepare(
	ctx context.Context, all []*dra.Claim,
) (map[string]*dra.NodeUnprepareResourceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	r, err := n.client.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: all})
	if err != nil {
		return nil, fmt.Errorf("DRA driver %s: NodeUnprepareResources: %w", n.name, err)
	}
	return r.GetClaims(), nil
}
