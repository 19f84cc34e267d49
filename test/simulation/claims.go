package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/journalet/journalet/runtime/dra"
)

// ResourceClaims of pods (ADR 067), and DRA drivers that come and go, hang and refuse. runtime/dra is the real one; the
// drivers are models at their two calls.

// Claimed returns the plan of a seed with an API server whose pods have claims.
func Claimed(seed uint64) *Plan {
	p := Clustered(seed)
	p.config.claimed = true
	p.disturb(stream(seed, "plan of claims"), claimOps)
	p.inOrder()
	return p
}

// claimOps is what happens to DRA drivers, by kind.
var claimOps = processOps("a DRA driver",
	func(s *sim, o Op) *pluginProcess { return &s.someClaimDriver(o).pluginProcess }, nil)

// claimDriver is a DRA driver as it is. What it has prepared outlasts its restarts, and no reboot.
type claimDriver struct {
	name string
	pluginProcess
	prepared map[string]*preparedClaim // by UID
}

// preparedClaim is what a driver has prepared of a claim.
type preparedClaim struct {
	boot       string
	allocation int
	// unknown is set once the agent has lost its records of the claim, stale if it was prepared again after that.
	unknown, stale bool
}

// The DRA drivers, by the request that they serve in each claim.
var claimRequests = []string{"gpu", "net"}

func driverOf(request string) string { return request + ".example.com" }

// startClaimDrivers starts the drivers of the plan.
func (s *sim) startClaimDrivers() {
	if !s.config.claimed {
		return
	}
	for _, request := range claimRequests {
		d := &claimDriver{name: driverOf(request), prepared: map[string]*preparedClaim{}}
		d.start()
		s.world.claimDrivers = append(s.world.claimDrivers, d)
	}
}

func (s *sim) someClaimDriver(o Op) *claimDriver {
	return s.world.claimDrivers[o.pick%uint64(len(s.world.claimDrivers))]
}

// fixClaimDrivers ends all faults of drivers.
func (w *world) fixClaimDrivers() {
	for _, d := range w.claimDrivers {
		d.fix()
	}
}

// has returns what a driver has prepared of a claim since the boot, nil for nothing.
func (d *claimDriver) has(uid, boot string) *preparedClaim {
	if p := d.prepared[uid]; p != nil && p.boot == boot {
		return p
	}
	return nil
}

// claim is a ResourceClaim.
type claim struct {
	name podName
	uid  string
	// drivers are the drivers of its allocation, none as long as it is not allocated. allocations counts.
	drivers     []string
	allocations int
	// owner is the pod that it was created for, empty for none. reserved are the pods that may use it.
	owner    string
	reserved map[string]bool
}

// usedClaim is a claim of a pod as it was when the pod was bound.
type usedClaim struct {
	*claim
	local      string // in the pod's manifest
	drivers    []string
	allocation int
}

// ownClaim is how a pod's manifest names the claim that is created for it.
const ownClaim = "own"

// withClaims gives some of the pods that a client creates claims, shared and own ones.
func (s *sim) withClaims(p *corev1.Pod, o Op) {
	if !s.config.claimed {
		return
	}
	r := stream(s.seed, "claims of a pod", fmt.Sprint(o.pick))
	for _, name := range []string{"shared0", "shared1"} {
		if chance(r, 3) {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
		}
	}
	if template := "template"; chance(r, 2) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
			corev1.PodResourceClaim{Name: ownClaim, ResourceClaimTemplateName: &template})
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for _, podClaim := range p.Spec.ResourceClaims {
				if chance(r, 2) {
					list[i].Resources.Claims = append(list[i].Resources.Claims,
						corev1.ResourceClaim{Name: podClaim.Name, Request: pick(r, append(claimRequests, "")...)})
				}
			}
		}
	}
}

// reserve does what the control plane does before it binds a pod: it creates, allocates and reserves the pod's claims.
// It changes the pod's status.
func (a *apiServer) reserve(p *corev1.Pod, r *rand.Rand) {
	uid := string(p.UID)
	for _, podClaim := range p.Spec.ResourceClaims {
		n, owner := podName{Namespace: p.Namespace, Name: podClaim.Name}, ""
		if podClaim.ResourceClaimName == nil {
			n.Name, owner = fmt.Sprintf("%s-%s-%s", p.Name, podClaim.Name, uid), uid
			status := corev1.PodResourceClaimStatus{Name: podClaim.Name}
			none := chance(r, 8)
			if !none {
				status.ResourceClaimName = &n.Name
			}
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, status)
			if none {
				continue
			}
		}
		c := a.claims[n]
		if c == nil {
			c = &claim{name: n, uid: string(a.newUID("claim")), owner: owner, reserved: map[string]bool{}}
			a.claims[n] = c
		}
		if len(c.drivers) == 0 {
			c.allocations++
			c.drivers = pick(r, []string{driverOf("gpu")}, []string{driverOf("net")}, []string{driverOf("gpu"), driverOf("net")})
		}
		c.reserved[uid] = true
		a.claimsOf[uid] = append(a.claimsOf[uid], usedClaim{c, podClaim.Name, c.drivers, c.allocations})
	}
}

// unreserve does what the control plane does some time after a pod has ended, or has gone: what nobody uses any more is
// allocated to others.
func (a *apiServer) unreserve(uid string) {
	if len(a.claimsOf[uid]) == 0 {
		return
	}
	a.sim.later(between(a.noise, time.Millisecond, 10*time.Second), func() {
		for _, c := range a.claimsOf[uid] {
			if delete(c.reserved, uid); len(c.reserved) == 0 {
				c.claim.drivers = nil
			}
			if c.owner == uid && a.claims[c.name] == c.claim {
				delete(a.claims, c.name)
			}
		}
	})
}

// object returns the claim as the API server has it.
func (c *claim) object() *resourcev1.ResourceClaim {
	out := &resourcev1.ResourceClaim{}
	out.Namespace, out.Name, out.UID = c.name.Namespace, c.name.Name, types.UID(c.uid)
	if c.owner != "" {
		yes := true
		out.OwnerReferences = append(out.OwnerReferences,
			metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", UID: types.UID(c.owner), Controller: &yes})
	}
	for _, uid := range slices.Sorted(maps.Keys(c.reserved)) {
		out.Status.ReservedFor = append(out.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "any", UID: types.UID(uid)})
	}
	if len(c.drivers) > 0 {
		out.Status.Allocation = &resourcev1.AllocationResult{}
		for _, name := range c.drivers {
			out.Status.Allocation.Devices.Results = append(out.Status.Allocation.Devices.Results,
				resourcev1.DeviceRequestAllocationResult{Request: requestOf(name), Driver: name, Pool: "node",
					Device: deviceOf(c.allocations)})
		}
	}
	return out
}

// deviceOf returns the device of a driver that a claim has by an allocation.
func deviceOf(allocation int) string { return fmt.Sprintf("device-%d", allocation) }

func requestOf(driver string) string { return strings.TrimSuffix(driver, ".example.com") }

// claimObjects reads claims and pods of the API server. It implements dra.Objects.
type claimObjects struct{ run *run }

// Claim reads a claim.
func (c claimObjects) Claim(_ context.Context, namespace, name string) (out *resourcev1.ResourceClaim, err error) {
	return out, c.run.cluster.request("get", func(a *apiServer) error {
		found := a.claims[podName{Namespace: namespace, Name: name}]
		if found == nil {
			return apierrors.NewNotFound(claimsResource, name)
		}
		out = found.object()
		return nil
	})
}

// Pod reads a pod.
func (c claimObjects) Pod(_ context.Context, namespace, name string) (out *corev1.Pod, err error) {
	return out, c.run.cluster.request("get", func(a *apiServer) error {
		if out = a.pods[podName{Namespace: namespace, Name: name}]; out == nil {
			return apierrors.NewNotFound(podsResource, name)
		}
		return nil
	})
}

// newClaims returns the driver of claims; nil without claims.
func newClaims(r *run) *dra.Claims {
	if !r.config.claimed {
		return nil
	}
	return dra.New(dra.Options{
		BootID: r.bootID(), Drivers: claimCallers{r}, Objects: claimObjects{r}, Clock: driverClock{r.clock, r},
	})
}

// claimCallers are the drivers that have registered. It implements dra.Callers.
type claimCallers struct{ run *run }

// Caller returns a driver.
func (c claimCallers) Caller(name string) (dra.Caller, error) {
	for _, d := range c.run.world.claimDrivers {
		if d.name == name && d.registered(c.run, "DRA driver", name) {
			return claimCaller{c.run, d, d.runs}, nil
		}
	}
	return nil, fmt.Errorf("DRA driver %s is not registered", name)
}

// claimCaller calls one run of a driver. It implements dra.Caller.
type claimCaller struct {
	run    *run
	driver *claimDriver
	runs   int
}

// claimTimeout bounds a call of a driver (runtime/dra: callTimeout).
const claimTimeout = 45 * time.Second

func (c claimCaller) call(ctx context.Context, work func() error) error {
	return c.driver.call(ctx, c.run, "DRA driver "+c.driver.name, c.runs, claimTimeout, work)
}

// Prepare prepares claims. What is prepared already stays as it is, whatever the claim has been allocated since.
func (c claimCaller) Prepare(ctx context.Context, all []*drav1.Claim,
) (map[string]*drav1.NodePrepareResourceResponse, error) {
	out := map[string]*drav1.NodePrepareResourceResponse{}
	return out, c.call(ctx, func() error {
		for _, want := range all {
			switch answer, err := c.prepare(want); {
			case err == nil:
				out[want.GetUid()] = answer
			case chance(c.run.world.noise, 2):
				out[want.GetUid()] = &drav1.NodePrepareResourceResponse{Error: err.Error()}
			}
		}
		return nil
	})
}

func (c claimCaller) prepare(want *drav1.Claim) (*drav1.NodePrepareResourceResponse, error) {
	r, d, uid := c.run, c.driver, want.GetUid()
	is := r.api.claims[podName{Namespace: want.GetNamespace(), Name: want.GetName()}]
	p := d.has(uid, r.bootID())
	switch {
	case d.refuses(r.world):
		return nil, errors.New("the driver refuses" + wildText)
	case p != nil:
	case is == nil || is.uid != uid || !slices.Contains(is.drivers, d.name):
		return nil, fmt.Errorf("claim %s is not allocated", want.GetName())
	default:
		p = &preparedClaim{boot: r.bootID(), allocation: is.allocations}
		d.prepared[uid] = p
	}
	p.stale, p.unknown = p.stale || p.unknown, false
	return &drav1.NodePrepareResourceResponse{Devices: []*drav1.Device{{
		RequestNames: []string{requestOf(d.name)}, PoolName: "node", DeviceName: deviceOf(p.allocation),
		CdiDeviceIds: []string{cdiName(d.name, uid, p.allocation)},
	}}}, nil
}

// cdiName returns the CDI name of the device that a driver prepares for an allocation of a claim.
func cdiName(driver, uid string, allocation int) string {
	return fmt.Sprintf("%s/device=%s.%d", driver, uid, allocation)
}

// Unprepare undoes Prepare.
func (c claimCaller) Unprepare(ctx context.Context, all []*drav1.Claim,
) (map[string]*drav1.NodeUnprepareResourceResponse, error) {
	out := map[string]*drav1.NodeUnprepareResourceResponse{}
	return out, c.call(ctx, func() error {
		for _, want := range all {
			if c.driver.refuses(c.run.world) {
				if chance(c.run.world.noise, 2) {
					out[want.GetUid()] = &drav1.NodeUnprepareResourceResponse{Error: "the driver refuses" + wildText}
				}
				continue
			}
			c.run.judge.claimUnprepared(want.GetUid())
			delete(c.driver.prepared, want.GetUid())
			out[want.GetUid()] = &drav1.NodeUnprepareResourceResponse{}
		}
		return nil
	})
}
