//go:build attack

package attack

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/fakedra"
	"github.com/journalet/journalet/test/node"
)

const (
	// floodingDrivers send reports as fast as they are read, each of so many devices.
	floodingDrivers = 4
	floodedDevices  = 4000
)

// claimed creates a pod with a claim on a device of a driver.
func (w *world) claimed(name, driver string) {
	p := node.Pod(name, node.Image, node.Idle)
	p.Spec.NodeName, p.UID = w.g.Node, uuid.NewUUID()
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To(name)}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	uid := w.api.Create("pods", p)
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	w.api.Create("resourceclaims.resource.k8s.io", claim)
	w.api.Change("resourceclaims.resource.k8s.io", "status", "default", name, claim, func() {
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{
			Resource: "pods", Name: name, UID: types.UID(uid),
		}}
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: driver, Pool: "pool", Device: "d0"}},
		}}
	})
}

// showsHealth waits until a pod's status shows the health of its device.
func (w *world) showsHealth(name string, want corev1.ResourceHealthStatus) {
	w.g.Helper()
	node.Eventually(w.g.T, settle, name+" to have a device that is "+string(want), func() error {
		p := new(corev1.Pod)
		if !w.api.Get("pods", "default", name, p) || len(p.Status.ContainerStatuses) == 0 {
			return fmt.Errorf("it is %+v", p)
		}
		st := p.Status.ContainerStatuses[0].AllocatedResourcesStatus
		if len(st) != 1 || len(st[0].Resources) != 1 || st[0].Resources[0].Health != want {
			return fmt.Errorf("it has %+v", st)
		}
		return nil
	})
}

func reportOf(devices int, is health.HealthStatus, message string) *health.NodeWatchResourcesResponse {
	r := new(health.NodeWatchResourcesResponse)
	for i := range devices {
		r.Devices = append(r.Devices, &health.DeviceHealth{
			Device: &health.DeviceIdentifier{PoolName: "pool", DeviceName: fmt.Sprint("d", i)},
			Health: is, Message: message, HealthCheckTimeoutSeconds: 1 << 60,
		})
	}
	return r
}

// DRA drivers that flood the agent with reports of health, send reports that are too large or name something that is
// not a device, and end their streams at once.
func TestHostileReportsOfHealth(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var flood sync.WaitGroup
	calm := make(chan *health.NodeWatchResourcesResponse, 1)
	var stops []func()
	start := func(g *target, d *fakedra.Driver) {
		_, stop := fakedra.Start(g.T, d, filepath.Join(g.Root, plugins.RegistryDir))
		stops = append(stops, stop)
	}
	harm := func(g *target, name string, next func(int) *health.NodeWatchResourcesResponse) {
		d := &fakedra.Driver{
			Name: name + ".example.com", Health: make(chan *health.NodeWatchResourcesResponse),
			Prepared: withoutCDI,
		}
		start(g, d)
		flood.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case d.Health <- next(i):
				}
			}
		})
	}
	attack{
		cluster: true,
		begin: func(g *target) {
			for i := range floodingDrivers {
				harm(g, fmt.Sprint("flood-", i), func(n int) *health.NodeWatchResourcesResponse {
					return reportOf(floodedDevices, health.HealthStatus(n%2+1), fmt.Sprint(n, strings.Repeat("m", 900)))
				})
			}
			harm(g, "huge", func(int) *health.NodeWatchResourcesResponse {
				return reportOf(6000, health.HealthStatus_HEALTHY, strings.Repeat("m", 1000))
			})
			harm(g, "many", func(int) *health.NodeWatchResourcesResponse { return reportOf(9000, 1, "") })
			harm(g, "garbage", func(int) *health.NodeWatchResourcesResponse {
				return &health.NodeWatchResourcesResponse{Devices: []*health.DeviceHealth{nil}}
			})
			ends := make(chan *health.NodeWatchResourcesResponse)
			close(ends)
			start(g, &fakedra.Driver{Name: "ends.example.com", Health: ends, Prepared: withoutCDI})
			start(g, &fakedra.Driver{Name: "calm.example.com", Health: calm, Prepared: withoutCDI})
			g.world.claimed("flooded", "flood-0.example.com")
			g.world.claimed("calm", "calm.example.com")
			g.world.showsHealth("calm", corev1.ResourceHealthStatusUnknown)
		},
		check: func(g *target) {
			begun := time.Now()
			calm <- reportOf(1, health.HealthStatus_UNHEALTHY, "")
			g.world.showsHealth("calm", corev1.ResourceHealthStatusUnhealthy)
			g.Logf("the health of another driver's device is in the status after %s", time.Since(begun))
			g.world.showsHealth("flooded", corev1.ResourceHealthStatusHealthy)
			g.world.showsHealth("flooded", corev1.ResourceHealthStatusUnhealthy)
		},
		end: func(g *target) {
			cancel()
			flood.Wait()
			for _, name := range []string{"flooded", "calm"} {
				g.world.api.Delete("pods", "default", name, 1)
			}
			node.Eventually(g.T, settle, "the pods with claims to be gone", func() error {
				for _, name := range []string{"flooded", "calm"} {
					if p := new(corev1.Pod); g.world.api.Get("pods", "default", name, p) {
						return fmt.Errorf("%s: %+v", name, p.Status)
					}
				}
				return nil
			})
			for _, stop := range stops {
				stop()
			}
		},
	}.run(t)
}

// withoutCDI has a driver answer with devices that need nothing of the runtime.
func withoutCDI(r *dra.NodePrepareResourcesResponse) {
	for _, c := range r.GetClaims() {
		c.Devices = []*dra.Device{{PoolName: "pool", DeviceName: "d0"}}
	}
}
