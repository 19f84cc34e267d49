package image

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri"
)

const (
	// Period is the pause between two checks (kubelet: image garbage collection every 5 min).
	Period = 5 * time.Minute
	// AwaitedPeriod is the pause between two inspections while a pod waits for an image that it would take from the node
	// without a pull: somebody may load it. A kubelet inspects it with each sync of the pod, every 60 to 90 s.
	AwaitedPeriod = 20 * time.Second
	// Pause is the shortest time between two inspections of the runtime that hints lead to.
	Pause = 10 * time.Second
	// Timeout bounds one inspection. With many new containers it takes as many calls.
	Timeout = time.Minute
)

// Options configure a Driver. Conn, Uses and Sink must be set.
type Options struct {
	// Conn reaches the image service.
	Conn grpc.ClientConnInterface
	// Uses returns which containers use which images.
	Uses func(context.Context) ([]cri.ImageUse, error)
	// Sink receives facts about the image actor. After an error they are reported again.
	Sink func(context.Context, *journaletv1.Event) error
	// HighPercent is the use of the images' file system at which it is reported as full; 0: it is not measured.
	HighPercent int64
	// Unmeasured receives why the file system cannot be measured, and how often in a row; may be nil.
	Unmeasured func(err error, times int)
	// Statfs returns the size of a file system and what is available of it, in bytes. Default: the kernel's.
	Statfs func(path string) (capacity, available int64, err error)
	// Period, AwaitedPeriod, Pause and Timeout default to the constants of their names.
	Period, AwaitedPeriod, Pause, Timeout time.Duration
	// Clock bounds calls; default: the machine's.
	Clock clock.Clock
	Log   *slog.Logger
}

// Driver observes the images on the node. Unchanged images cost no record, and only the calls of each Period.
type Driver struct {
	opts   Options
	images runtimeapi.ImageServiceClient
	wake   chan struct{}
	// inspecting is held during an inspection: one at a time is enough.
	inspecting sync.Mutex

	mu sync.Mutex
	// last is what the journal has, by id. Its values are never changed.
	last map[string]*journaletv1.ImageObservation
	// removing are the images that the image actor has requested to remove, by intent.
	removing map[string]string
	// awaited are the images that pods wait for and would take from the node without a pull, by the pods' UID.
	awaited map[string]map[string]bool
	// reported: an observation of this run is in the journal.
	reported bool
	failed   map[string]string // the last error logged, by what failed
	hanging  bool              // a measurement has not returned
	// unmeasured are the measurements that have failed in a row. Only measure uses it.
	unmeasured int
}

// New returns a driver. It inspects nothing yet.
func New(o Options) *Driver {
	if o.Period == 0 {
		o.Period = Period
	}
	if o.AwaitedPeriod == 0 {
		o.AwaitedPeriod = AwaitedPeriod
	}
	if o.Pause == 0 {
		o.Pause = Pause
	}
	if o.Timeout == 0 {
		o.Timeout = Timeout
	}
	if o.Statfs == nil {
		o.Statfs = statfs
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		opts: o, images: runtimeapi.NewImageServiceClient(o.Conn), wake: make(chan struct{}, 1),
		last: map[string]*journaletv1.ImageObservation{}, removing: map[string]string{},
		awaited: map[string]map[string]bool{}, failed: map[string]string{},
	}
}

// Seed adds what the image actor has. It is called before Run.
func (d *Driver) Seed(s *journaletv1.ImageState) {
	for id, r := range s.GetImages() {
		d.last[id] = proto.CloneOf(r.GetObserved())
	}
	maps.Copy(d.removing, s.GetRemovals())
	for _, w := range s.GetWaits() {
		if w.GetWaiting() && w.GetIfNotPresent() {
			d.await(w.GetUid(), w.GetImage())
		}
	}
}

// SeedPending handles a record that the image actor has not handled yet.
func (d *Driver) SeedPending(rec *journaletv1.Record) {
	d.follow(rec)
}

// follow keeps what the journal has: what was observed, but for what was removed after it. The image actor does the
// same, in the order of the records.
func (d *Driver) follow(rec *journaletv1.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := rec.GetFact().GetImagesObserved(); o != nil {
		apply(d.last, o)
	}
	for _, e := range rec.GetStep().GetDecisions() {
		d.followWait(e)
	}
	f := rec.GetFact().GetCallFinished()
	id, ours := d.removing[f.GetIntentId()]
	if !ours {
		return
	}
	delete(d.removing, f.GetIntentId())
	if f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED && !f.GetImageInUse() {
		delete(d.last, id)
	}
}

// followWait keeps which images are awaited; d.mu is held.
func (d *Driver) followWait(e *journaletv1.Event) {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ImagePullRequested:
		if r := k.ImagePullRequested; r.GetIfNotPresent() {
			d.await(r.GetUid(), r.GetImage())
		}
	case *journaletv1.Event_ImagePullDecided:
		if r := k.ImagePullDecided; r.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
			d.awaitNoMore(r.GetUid(), r.GetImage())
		}
	case *journaletv1.Event_ImagePullWithdrawn:
		d.awaitNoMore(k.ImagePullWithdrawn.GetUid(), k.ImagePullWithdrawn.GetImage())
	case *journaletv1.Event_PodFinished:
		delete(d.awaited, k.PodFinished.GetUid())
	}
}

func (d *Driver) await(uid, image string) {
	if d.awaited[uid] == nil {
		d.awaited[uid] = map[string]bool{}
	}
	d.awaited[uid][image] = true
}

func (d *Driver) awaitNoMore(uid, image string) {
	delete(d.awaited[uid], image)
	if len(d.awaited[uid]) == 0 {
		delete(d.awaited, uid)
	}
}

// Awaits reports whether a pod waits for an image that somebody may load.
func (d *Driver) Awaits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.awaited) > 0
}

// Stored handles a stored record: after the end of a pull or a removal, the end of a pod, and the start of a container
// from an image that was not in use, there is something to observe.
func (d *Driver) Stored(rec *journaletv1.Record) {
	if f := rec.GetFact().GetCallFinished(); f != nil && (f.GetRequester() == messages.Image.String() || d.newUse(f)) {
		d.hint()
	}
	d.follow(rec)
	for i, e := range rec.GetStep().GetDecisions() {
		if e.GetPodFinished() != nil {
			d.hint()
		}
		if r := e.GetCallRequested().GetRemoveImage(); r != nil {
			id := messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), messages.RefOf(rec.GetActor()),
				int(rec.GetStep().GetOffset())+i)
			d.mu.Lock()
			d.removing[id] = r.GetImageId()
			d.mu.Unlock()
		}
	}
}

// newUse reports whether a call has used an image that was not in use.
func (d *Driver) newUse(f *journaletv1.CallFinished) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return f.GetImageRef() != "" && !d.last[f.GetImageRef()].GetUsed()
}

func (d *Driver) hint() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run observes until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	period := time.NewTicker(d.opts.Period)
	defer period.Stop()
	awaited := time.NewTicker(d.opts.AwaitedPeriod)
	defer awaited.Stop()
	full, hinted := true, false
	for {
		err := d.Check(ctx, full)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			full = false
		} else {
			d.hint() // again after the pause
		}
		if (err != nil || hinted) && !d.pause(ctx) {
			return ctx.Err()
		}
		if hinted, full = d.next(ctx, awaited.C, period.C, full); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// next waits until there may be something to observe, and reports whether a hint or the period led to it.
func (d *Driver) next(ctx context.Context, awaited, period <-chan time.Time, full bool) (hinted, again bool) {
	for {
		select {
		case <-ctx.Done():
			return false, full
		case <-d.wake:
			return true, full
		case <-period:
			return false, true
		case <-awaited:
			if d.Awaits() {
				return false, full
			}
		}
	}
}

// Check observes the images and then, with full, the size of their file system. Run calls it.
func (d *Driver) Check(ctx context.Context, full bool) error {
	err := d.Observe(ctx)
	if err == nil && full {
		d.measure(ctx)
	}
	return err
}

// Hinted reports whether there is something to observe before the period is over, once.
func (d *Driver) Hinted() bool {
	select {
	case <-d.wake:
		return true
	default:
		return false
	}
}

// pause waits, and reports whether ctx still runs.
func (d *Driver) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d.opts.Pause):
		return true
	}
}

// Observe inspects the runtime and reports what differs from the last observation.
func (d *Driver) Observe(ctx context.Context) error {
	d.inspecting.Lock()
	defer d.inspecting.Unlock()
	images, err := d.List(ctx)
	d.log("images cannot be inspected; none is removed on what is known of them", "inspect", err)
	if err != nil {
		return err
	}
	now := map[string]*journaletv1.ImageObservation{}
	for _, i := range images {
		now[i.GetId()] = i.ImageObservation
	}
	d.mu.Lock()
	changes := diff(d.last, now, !d.reported)
	d.mu.Unlock()
	if changes == nil {
		return nil
	}
	if err := d.opts.Sink(ctx, messages.NewEvent(changes)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reported = true
	return nil
}

// measure reports the images' file system if it is full.
func (d *Driver) measure(ctx context.Context) {
	if d.opts.HighPercent <= 0 || d.opts.HighPercent >= 100 {
		return
	}
	fs, err := d.Filesystem(ctx)
	d.log("the images' file system cannot be measured; no image is removed for space", "measure", err)
	if err == nil {
		d.unmeasured = 0
	} else if d.unmeasured++; d.opts.Unmeasured != nil && ctx.Err() == nil {
		d.opts.Unmeasured(err, d.unmeasured)
	}
	if err != nil || fs.UsedPercent() < d.opts.HighPercent {
		return
	}
	full := &journaletv1.ImageFilesystemFull{CapacityBytes: fs.Capacity, AvailableBytes: fs.Available}
	if err := d.opts.Sink(ctx, messages.NewEvent(full)); err != nil && ctx.Err() == nil {
		d.opts.Log.Warn("a full file system of images was not recorded; it is reported again", "error", err)
	}
}

// log logs an error once until it changes.
func (d *Driver) log(message, what string, err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("%.500s", err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if text != "" && d.failed[what] != text {
		d.opts.Log.Warn(message, "error", text)
	}
	d.failed[what] = text
}
