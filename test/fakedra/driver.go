package fakedra

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthalpha "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	drabeta "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/journalet/journalet/test/must"
)

// Driver is a DRA driver. Its fields may be changed before Start, and within Lock.
type Driver struct {
	dra.UnimplementedDRAPluginServer
	registration.UnimplementedRegistrationServer
	health.UnimplementedDRAResourceHealthServer
	sync.Mutex
	// Name is the driver's; it is the vendor of its CDI devices, too.
	Name string
	// Beta has it serve v1beta1 instead of v1.
	Beta bool
	// Before is called before each call, with its name and the UIDs of its claims. An error is its answer, and nothing is
	// done. After is called when it is done; an error is its answer nevertheless.
	Before, After func(ctx context.Context, call string, uids []string) error
	// Prepared and Unprepared change the answers.
	Prepared   func(*dra.NodePrepareResourcesResponse)
	Unprepared func(*dra.NodeUnprepareResourcesResponse)
	// Health are the reports that it sends on each stream, until it is closed or the stream ends; nil: it has no such
	// service. AlphaHealth has it serve v1alpha1 instead of v1.
	Health      chan *health.NodeWatchResourcesResponse
	AlphaHealth bool
	// HealthEnded is called as a stream of reports has ended, and takes none of Health any more; nil: nothing.
	HealthEnded func()

	// calls are the calls that came, as "prepare u1". held are the claims that are prepared. registered counts its
	// registrations.
	calls      []string
	held       map[string]bool
	registered int
}

// Start serves the driver and its registration on a socket in a directory until the test ends, and returns the socket's
// path and what stops it before.
func Start(t testing.TB, d *Driver, dir string) (socket string, stop func()) {
	t.Helper()
	socket = filepath.Join(dir, d.Name+".sock")
	_ = os.Remove(socket)
	l, err := net.Listen("unix", socket)
	must.OK(t, err)
	s := grpc.NewServer()
	registration.RegisterRegistrationServer(s, d)
	if d.Beta {
		drabeta.RegisterDRAPluginServer(s, drabeta.V1ServerWrapper{DRAPluginServer: d})
	} else {
		dra.RegisterDRAPluginServer(s, d)
	}
	switch {
	case d.Health == nil:
	case d.AlphaHealth:
		healthalpha.RegisterDRAResourceHealthServer(s, health.V1ServerWrapper{Server: d})
	default:
		health.RegisterDRAResourceHealthServer(s, d)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	stop = sync.OnceFunc(func() {
		s.Stop()
		<-done
	})
	t.Cleanup(stop)
	return socket, stop
}

// Services are the versions of the API that the driver serves.
func (d *Driver) Services() []string {
	all := []string{dra.DRAPluginService}
	if d.Beta {
		all = []string{drabeta.DRAPluginService}
	}
	switch {
	case d.Health == nil:
	case d.AlphaHealth:
		all = append(all, healthalpha.DRAResourceHealthService)
	default:
		all = append(all, health.DRAResourceHealthService)
	}
	return all
}

// NodeWatchResources sends the reports of Health.
func (d *Driver) NodeWatchResources(
	_ *health.NodeWatchResourcesRequest, stream health.DRAResourceHealth_NodeWatchResourcesServer,
) error {
	if d.HealthEnded != nil {
		defer d.HealthEnded()
	}
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case r, open := <-d.Health:
			if !open {
				return nil
			}
			if err := stream.Send(r); err != nil {
				return err
			}
		}
	}
}

// Calls returns the calls that came, and forgets them.
func (d *Driver) Calls() []string {
	d.Lock()
	defer d.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// Held returns the UIDs of the claims that are prepared, sorted.
func (d *Driver) Held() []string {
	d.Lock()
	defer d.Unlock()
	return slices.Sorted(maps.Keys(d.held))
}

// GetInfo answers what the driver is.
func (d *Driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: d.Name, SupportedVersions: d.Services()}, nil
}

// Registered returns how often the driver was registered.
func (d *Driver) Registered() int {
	d.Lock()
	defer d.Unlock()
	return d.registered
}

// NotifyRegistrationStatus takes how the registration ended.
func (d *Driver) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	d.Lock()
	defer d.Unlock()
	if s.GetPluginRegistered() {
		d.registered++
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// NodePrepareResources prepares claims: each gets a device, with the CDI device <name>/claim=<uid>.
func (d *Driver) NodePrepareResources(
	ctx context.Context, r *dra.NodePrepareResourcesRequest,
) (*dra.NodePrepareResourcesResponse, error) {
	out := &dra.NodePrepareResourcesResponse{Claims: map[string]*dra.NodePrepareResourceResponse{}}
	err := d.around(ctx, "prepare", r.GetClaims(), func() {
		for _, c := range r.GetClaims() {
			if d.held == nil {
				d.held = map[string]bool{}
			}
			d.held[c.GetUid()] = true
			out.Claims[c.GetUid()] = &dra.NodePrepareResourceResponse{Devices: []*dra.Device{{
				PoolName: "pool", DeviceName: "dev-" + c.GetUid(), CdiDeviceIds: []string{d.Name + "/claim=" + c.GetUid()},
			}}}
		}
		if d.Prepared != nil {
			d.Prepared(out)
		}
	})
	return out, err
}

// NodeUnprepareResources undoes NodePrepareResources.
func (d *Driver) NodeUnprepareResources(
	ctx context.Context, r *dra.NodeUnprepareResourcesRequest,
) (*dra.NodeUnprepareResourcesResponse, error) {
	out := &dra.NodeUnprepareResourcesResponse{Claims: map[string]*dra.NodeUnprepareResourceResponse{}}
	err := d.around(ctx, "unprepare", r.GetClaims(), func() {
		for _, c := range r.GetClaims() {
			delete(d.held, c.GetUid())
			out.Claims[c.GetUid()] = &dra.NodeUnprepareResourceResponse{}
		}
		if d.Unprepared != nil {
			d.Unprepared(out)
		}
	})
	return out, err
}

func (d *Driver) around(ctx context.Context, call string, claims []*dra.Claim, do func()) error {
	var uids []string
	for _, c := range claims {
		uids = append(uids, c.GetUid())
	}
	slices.Sort(uids)
	d.Lock()
	for _, uid := range uids {
		d.calls = append(d.calls, call+" "+uid)
	}
	before, after := d.Before, d.After
	d.Unlock()
	if before != nil {
		if err := before(ctx, call, uids); err != nil {
			return err
		}
	}
	d.Lock()
	do()
	d.Unlock()
	if after != nil {
		return after(ctx, call, uids)
	}
	return nil
}
