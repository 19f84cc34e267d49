package dra

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/redact"
)

// Options configure Claims. All but Clock must be set.
type Options struct {
	// BootID is the ID of the machine's boot.
	BootID  string
	Drivers Callers
	Objects Objects
	// Clock is for who waits until another call for a claim has ended. Default: the machine's.
	Clock clock.Clock
}

// Callers are the drivers that can be called. Drivers implements it.
type Callers interface {
	// Caller returns the driver of a name, or why it cannot be called.
	Caller(name string) (Caller, error)
}

// Caller is a driver. Its answers are by the UIDs of claims; an error is of the call as a whole.
type Caller interface {
	Prepare(ctx context.Context, all []*dra.Claim) (map[string]*dra.NodePrepareResourceResponse, error)
	Unprepare(ctx context.Context, all []*dra.Claim) (map[string]*dra.NodeUnprepareResourceResponse, error)
}

// Claims prepares and unprepares claims. Its methods may be called concurrently.
type Claims struct {
	opts Options

	mu    sync.Mutex
	byUID map[string]*claim
}

// claim is a ResourceClaim that a pod of the node uses, or that a call is for.
type claim struct {
	// calls orders the calls for it.
	calls clock.Lock
	// waiters counts who has the lock or waits for it. users are the pods whose records have it in use, with the
	// allocation that each has read. touched are the allocations that a driver may have prepared. All are read and
	// written with Claims.mu.
	waiters int
	users   map[string]string
	touched map[string]bool

	// prepared means that all drivers have prepared an allocation in this boot, and devices are their answers. They are
	// read and written with the lock.
	prepared   bool
	allocation string
	devices    []*journaletv1.ClaimDevice
}

// differ reports whether two allocations of a claim differ, as far as they are known. A claim whose last pod was
// deleted by force is allocated again while that pod still runs here.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// ready reports whether drivers have prepared an allocation in this boot.
func (x *claim) ready(allocation string) bool { return x.prepared && !differ(x.allocation, allocation) }

// New returns Claims that no pod uses yet.
func New(o Options) *Claims {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	return &Claims{opts: o, byUID: map[string]*claim{}}
}

// Seed adds the claims of a pod by its state at a start.
func (c *Claims) Seed(pod string, state *journaletv1.PodClaims) {
	for _, podClaim := range state.GetClaims() {
		switch podClaim.GetStage() {
		case journaletv1.ClaimStage_CLAIM_STAGE_PREPARING, journaletv1.ClaimStage_CLAIM_STAGE_PREPARED:
			x := c.use(pod, podClaim.GetClaim())
			c.touch(x, podClaim.GetClaim().GetAllocation())
			if podClaim.GetStage() == journaletv1.ClaimStage_CLAIM_STAGE_PREPARED {
				c.keep(x, pod, podClaim.GetBootId(), podClaim.GetDevices())
			}
		default:
		}
	}
}

// SeedPending adds an outcome that a pod has received and not handled at a start.
func (c *Claims) SeedPending(pod string, rec *journaletv1.Record) {
	for _, o := range rec.GetFact().GetCallFinished().GetClaimOutcomes() {
		c.mu.Lock()
		x := c.byUID[o.GetUid()]
		c.mu.Unlock()
		switch {
		case x == nil || !x.usedBy(pod):
		case o.GetStage() == journaletv1.ClaimStage_CLAIM_STAGE_PREPARED:
			c.keep(x, pod, o.GetBootId(), o.GetDevices())
		case o.GetStage() == journaletv1.ClaimStage_CLAIM_STAGE_UNPREPARED:
			c.leave(pod, o.GetUid())
		}
	}
}

// usedBy reports whether a pod uses the claim.
func (x *claim) usedBy(pod string) bool {
	_, uses := x.users[pod]
	return uses
}

// keep keeps what drivers have prepared for a pod in this boot. After another one it may be gone.
func (c *Claims) keep(x *claim, pod, boot string, devices []*journaletv1.ClaimDevice) {
	if boot == c.opts.BootID {
		x.prepared, x.allocation, x.devices = true, x.users[pod], devices
	}
}

// Stored handles a stored record. A pod uses a claim from the request on, so that none is unprepared for another pod
// after that.
func (c *Claims) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		call := e.GetCallRequested().GetPrepareClaims()
		for _, resourceClaim := range call.GetClaims() {
			x := c.use(e.GetCallRequested().GetPodUid(), resourceClaim)
			if slices.Contains(call.GetInDoubt(), resourceClaim.GetUid()) {
				c.touch(x, resourceClaim.GetAllocation())
			}
		}
		if k := e.GetPodForgotten(); k != nil {
			c.leaveAll(k.GetUid())
		}
	}
}

func (c *Claims) use(pod string, resourceClaim *journaletv1.ResourceClaim) *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.get(resourceClaim.GetUid())
	x.users[pod] = resourceClaim.GetAllocation()
	return x
}

// get returns a claim, which it creates if need be. The caller holds c.mu.
func (c *Claims) get(uid string) *claim {
	x := c.byUID[uid]
	if x == nil {
		x = &claim{calls: clock.NewLock(c.opts.Clock), users: map[string]string{}, touched: map[string]bool{}}
		c.byUID[uid] = x
	}
	return x
}

// touch notes that drivers may prepare an allocation of a claim from now on.
func (c *Claims) touch(x *claim, allocation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.touched[allocation] = true
}

// touched reports whether a driver may have prepared an allocation of a claim, and whether one may have prepared an
// earlier one.
func (c *Claims) touched(x *claim, allocation string) (this, earlier bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for was := range x.touched {
		this, earlier = this || !differ(was, allocation), earlier || differ(was, allocation)
	}
	return this, earlier
}

func (c *Claims) leave(pod, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.byUID[uid]; x != nil {
		c.left(pod, uid, x)
	}
}

// left ends the use of a claim by a pod. What no pod uses any more is not prepared. The caller holds c.mu.
func (c *Claims) left(pod, uid string, x *claim) {
	delete(x.users, pod)
	maps.DeleteFunc(x.touched, func(was string, _ bool) bool { return !x.inUse(was, pod) })
	c.drop(uid, x)
}

// inUse reports whether another pod than this one uses an allocation. The caller holds Claims.mu.
func (x *claim) inUse(allocation, pod string) bool {
	for other, uses := range x.users {
		if other != pod && !differ(uses, allocation) {
			return true
		}
	}
	return false
}

// leaveAll ends the use of all claims by a pod that is gone for good.
func (c *Claims) leaveAll(pod string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, x := range c.byUID {
		c.left(pod, uid, x)
	}
}

// drop forgets a claim that nobody needs. The caller holds c.mu.
func (c *Claims) drop(uid string, x *claim) {
	if len(x.users) == 0 && x.waiters == 0 {
		delete(c.byUID, uid)
	}
}

// shared reports whether another pod uses an allocation of a claim.
func (c *Claims) shared(x *claim, pod, allocation string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return x.inUse(allocation, pod)
}

// lock waits for the locks of claims, in the order of their UIDs, and returns what releases them.
func (c *Claims) lock(
	ctx context.Context, all []*journaletv1.ResourceClaim,
) (locked map[string]*claim, release func(), err error) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b *journaletv1.ResourceClaim) int {
		return cmp.Compare(a.GetUid(), b.GetUid())
	})
	locked = map[string]*claim{}
	release = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for uid, x := range locked {
			x.calls.Release()
			x.waiters--
			c.drop(uid, x)
		}
	}
	for _, resourceClaim := range sorted {
		uid := resourceClaim.GetUid()
		if locked[uid] != nil {
			continue
		}
		c.mu.Lock()
		x := c.get(uid)
		x.waiters++
		c.mu.Unlock()
		if err := x.calls.Acquire(ctx); err != nil {
			c.mu.Lock()
			x.waiters--
			c.drop(uid, x)
			c.mu.Unlock()
			release()
			return nil, nil, fmt.Errorf("another call for ResourceClaim %s is under way: %w",
				resourceClaim.GetName(), err)
		}
		locked[uid] = x
	}
	return locked, release, nil
}

// Prepare has drivers prepare claims for a pod. A claim that is prepared in this boot keeps its devices, and no driver
// is called for it. None is called unless all are there, and no claim is prepared with devices that it had before. It
// returns an outcome for each claim, or an error: then no driver was called.
func (c *Claims) Prepare(
	ctx context.Context, pod string, all []*journaletv1.ResourceClaim,
) ([]*journaletv1.ClaimOutcome, error) {
	locked, release, err := c.lock(ctx, all)
	if err != nil {
		return nil, err
	}
	defer release()
	p := preparation{answers: map[string][]*journaletv1.ClaimDevice{}, failed: map[string]error{}}
	for _, resourceClaim := range all {
		if x := locked[resourceClaim.GetUid()]; !x.ready(resourceClaim.GetAllocation()) {
			p.due = append(p.due, resourceClaim)
		}
	}
	batches, missing := c.batches(p.due, (*journaletv1.ResourceClaim).GetPrepare)
	hindrance := first(missing)
	for _, resourceClaim := range p.due {
		if _, earlier := c.touched(locked[resourceClaim.GetUid()], resourceClaim.GetAllocation()); earlier {
			hindrance = fmt.Errorf("ResourceClaim %s was allocated again, and a pod that has its earlier devices has not ended",
				resourceClaim.GetName())
		}
	}
	if hindrance == nil {
		for _, resourceClaim := range p.due {
			c.touch(locked[resourceClaim.GetUid()], resourceClaim.GetAllocation())
		}
		for _, b := range batches {
			p.call(ctx, b)
		}
	}
	var out []*journaletv1.ClaimOutcome
	for _, resourceClaim := range all {
		x, ready := locked[resourceClaim.GetUid()], locked[resourceClaim.GetUid()].ready(resourceClaim.GetAllocation())
		failed := p.failed[resourceClaim.GetUid()]
		switch {
		case !ready && hindrance != nil:
			out = append(out, c.notCalled(pod, resourceClaim, x, hindrance))
			continue
		case !ready && failed != nil:
			out = append(out, inDoubt(resourceClaim.GetUid(), failed))
			continue
		case !ready:
			x.prepared, x.allocation, x.devices = true, resourceClaim.GetAllocation(), p.answers[resourceClaim.GetUid()]
		}
		out = append(out, &journaletv1.ClaimOutcome{
			Uid: resourceClaim.GetUid(), Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARED, Devices: x.devices,
			BootId: c.opts.BootID,
		})
	}
	return out, nil
}

// inDoubt returns the outcome of a claim that a driver may have prepared or unprepared in part.
func inDoubt(uid string, why error) *journaletv1.ClaimOutcome {
	return &journaletv1.ClaimOutcome{
		Uid: uid, Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARING,
		Message: redact.URLs(why.Error()),
	}
}

// notCalled returns the outcome of a claim that this call called no driver for. If no earlier call called a driver for
// this allocation either, the pod does not use the claim.
func (c *Claims) notCalled(
	pod string, resourceClaim *journaletv1.ResourceClaim, x *claim, why error,
) *journaletv1.ClaimOutcome {
	o := inDoubt(resourceClaim.GetUid(), why)
	if touched, _ := c.touched(x, resourceClaim.GetAllocation()); !touched {
		o.Stage = journaletv1.ClaimStage_CLAIM_STAGE_READ
		c.leave(pod, resourceClaim.GetUid())
	}
	return o
}

// first returns the error of the name that comes first, nil if there is no error.
func first(errs map[string]error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[slices.Sorted(maps.Keys(errs))[0]]
}

// batch are the claims that one driver prepares or unprepares with one call.
type batch struct {
	name   string // of the driver
	driver Caller
	claims []*journaletv1.ResourceClaim
}

// batches returns the calls for claims, in the order of their drivers, and by name which drivers are not there.
func (c *Claims) batches(
	all []*journaletv1.ResourceClaim, driversOf func(*journaletv1.ResourceClaim) []string,
) (out []batch, missing map[string]error) {
	by := map[string][]*journaletv1.ResourceClaim{}
	for _, resourceClaim := range all {
		for _, name := range driversOf(resourceClaim) {
			by[name] = append(by[name], resourceClaim)
		}
	}
	missing = map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		d, err := c.opts.Drivers.Caller(name)
		if err != nil {
			missing[name] = err
			continue
		}
		out = append(out, batch{name, d, by[name]})
	}
	return out, missing
}

// request returns the claims of a batch as its driver gets them.
func (b *batch) request() []*dra.Claim {
	var all []*dra.Claim
	for _, resourceClaim := range b.claims {
		all = append(all, &dra.Claim{
			Namespace: resourceClaim.GetNamespace(), Uid: resourceClaim.GetUid(), Name: resourceClaim.GetName(),
		})
	}
	return all
}

// preparation is one call of Prepare.
type preparation struct {
	due []*journaletv1.ResourceClaim
	// answers are what drivers have answered, by UID. failed is why a claim is not prepared.
	answers map[string][]*journaletv1.ClaimDevice
	failed  map[string]error
}

// call has one driver prepare its claims, except claims that have already failed.
func (p *preparation) call(ctx context.Context, b batch) {
	b.claims = slices.DeleteFunc(b.claims, func(resourceClaim *journaletv1.ResourceClaim) bool {
		return p.failed[resourceClaim.GetUid()] != nil
	})
	if len(b.claims) == 0 {
		return
	}
	answers, err := b.driver.Prepare(ctx, b.request())
	for _, resourceClaim := range b.claims {
		uid, a := resourceClaim.GetUid(), answers[resourceClaim.GetUid()]
		devices, wrong := readDevices(b.name, a)
		switch {
		case err != nil:
			p.failed[uid] = err
		case a == nil:
			p.failed[uid] = fmt.Errorf("DRA driver %s: NodePrepareResources skipped ResourceClaim %s", b.name,
				resourceClaim.GetName())
		case a.GetError() != "":
			p.failed[uid] = fmt.Errorf("DRA driver %s: NodePrepareResources failed for ResourceClaim %s: %s", b.name,
				resourceClaim.GetName(), a.GetError())
		case wrong != nil:
			p.failed[uid] = wrong
		default:
			p.answers[uid] = append(p.answers[uid], devices...)
		}
	}
}

// Unprepare ends the use of claims by a pod: drivers undo what they have prepared, unless another pod uses it. It
// returns as Prepare does.
func (c *Claims) Unprepare(
	ctx context.Context, pod string, all []*journaletv1.ResourceClaim,
) ([]*journaletv1.ClaimOutcome, error) {
	locked, release, err := c.lock(ctx, all)
	if err != nil {
		return nil, err
	}
	defer release()
	failed := map[string]error{}
	var due []*journaletv1.ResourceClaim
	for _, resourceClaim := range all {
		x, allocation := locked[resourceClaim.GetUid()], resourceClaim.GetAllocation()
		another := x.prepared && !x.ready(allocation) // so that this one never was
		if touched, _ := c.touched(x, allocation); touched && !another && !c.shared(x, pod, allocation) {
			due = append(due, resourceClaim)
			x.prepared, x.devices = false, nil
		}
	}
	batches, missing := c.batches(due, (*journaletv1.ResourceClaim).GetUnprepare)
	for _, b := range batches {
		b.unprepare(ctx, failed)
	}
	for _, resourceClaim := range due {
		for _, name := range resourceClaim.GetUnprepare() {
			if failed[resourceClaim.GetUid()] == nil {
				failed[resourceClaim.GetUid()] = missing[name]
			}
		}
	}
	var out []*journaletv1.ClaimOutcome
	for _, resourceClaim := range all {
		uid := resourceClaim.GetUid()
		if failed[uid] != nil {
			out = append(out, inDoubt(uid, failed[uid]))
			continue
		}
		c.leave(pod, uid)
		out = append(out, &journaletv1.ClaimOutcome{Uid: uid, Stage: journaletv1.ClaimStage_CLAIM_STAGE_UNPREPARED})
	}
	return out, nil
}

// unprepare has one driver undo what it has prepared. failed gets why it has not, by UID.
func (b *batch) unprepare(ctx context.Context, failed map[string]error) {
	answers, err := b.driver.Unprepare(ctx, b.request())
	for _, resourceClaim := range b.claims {
		a, answered := answers[resourceClaim.GetUid()]
		switch {
		case err != nil:
			failed[resourceClaim.GetUid()] = err
		case !answered:
			failed[resourceClaim.GetUid()] = fmt.Errorf(
				"DRA driver %s: NodeUnprepareResources skipped ResourceClaim %s", b.name, resourceClaim.GetName())
		case a.GetError() != "":
			failed[resourceClaim.GetUid()] = fmt.Errorf(
				"DRA driver %s: NodeUnprepareResources failed for ResourceClaim %s: %s", b.name,
				resourceClaim.GetName(), a.GetError())
		}
	}
}
