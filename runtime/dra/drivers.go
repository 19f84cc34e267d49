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
)

// services are the versions of the API that a driver may serve, the preferred one first.
var services = []string{dra.DRAPluginService, drabeta.DRAPluginService}

// Drivers are the DRA drivers that have registered. Its methods may be called concurrently.
type Drivers struct {
	opts DriverOptions

	mu sync.Mutex
	// byName has the instances of a driver in the order in which they have registered: while it is updated, the new one is
	// there beside the old one.
	byName map[string][]*driver
}

// DriverOptions configure Drivers; NewConn must be set.
type DriverOptions struct {
	// NewConn returns a connection to a unix socket. An answer of more than maxBytes is an error.
	NewConn func(path string, maxBytes int) (*grpc.ClientConn, error)
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

// serviceOf returns the preferred one of the services that a driver names; "" if there is none.
func serviceOf(versions []string) string {
	for _, s := range services {
		if slices.Contains(versions, s) {
			return s
		}
	}
	return ""
}

// Register begins to use an instance of a driver, instead of those of its name that were there before.
func (d *Drivers) Register(name, endpoint string, versions []string) error {
	conn, err := d.opts.NewConn(endpoint, maxAnswer)
	if err != nil {
		return err
	}
	n := &driver{name: name, endpoint: endpoint, timeout: d.opts.Timeout, conn: conn, client: dra.NewDRAPluginClient(conn)}
	if serviceOf(versions) == drabeta.DRAPluginService {
		n.client = drabeta.V1Beta1ClientWrapper{DRAPluginClient: drabeta.NewDRAPluginClient(conn)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byName[name] = append(d.byName[name], n)
	return nil
}

// Deregister ends the use of an instance whose socket has gone. Its calls under way end.
func (d *Drivers) Deregister(name, endpoint string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, n := range d.byName[name] {
		if n.endpoint != endpoint {
			continue
		}
		if err := n.conn.Close(); err != nil {
			d.opts.Log.Debug("the connection to a DRA driver was not closed", "driver", name, "error", err)
		}
		d.byName[name] = slices.Delete(d.byName[name], i, i+1)
		break
	}
	if len(d.byName[name]) == 0 {
		delete(d.byName, name)
	}
}

// get returns the instance of a driver that has registered last.
func (d *Drivers) get(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all := d.byName[name]; len(all) > 0 {
		return all[len(all)-1], nil
	}
	return nil, fmt.Errorf("DRA driver %s is not registered (registered: %s)", name,
		strings.Join(slices.Sorted(maps.Keys(d.byName)), ", "))
}

// prepare has the driver prepare claims.
func (n *driver) prepare(
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

// unprepare has the driver undo prepare.
func (n *driver) unprepare(
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
