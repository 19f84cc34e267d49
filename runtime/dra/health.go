package dra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthalpha "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/redact"
)

const (
	// healthTimeout is how long a report holds without a timeout of its own. kubelet: 30 s.
	healthTimeout = 30 * time.Second
	// healthPause is the pause before the health of a driver's devices is watched again. kubelet: 5 s.
	healthPause = 5 * time.Second
	// reportPause is the pause between two reports that are read of a driver, however fast it sends them, and between two
	// times that changes are recorded: what changes faster is recorded as it is then.
	reportPause = time.Second
	// maxReport bounds a report, in bytes: gRPC's default, which the kubelet takes.
	maxReport = 4 << 20
	// maxHealthDevices bounds the devices of a driver whose health is kept. kubelet: 16384.
	maxHealthDevices = 4096
	// maxMessages bounds a fact with messages of drivers, in bytes. One that would be larger has none.
	maxMessages = 64 << 10
)

// healthServices are the versions of the API of health that a driver may serve, the preferred one first.
var healthServices = []string{health.DRAResourceHealthService, healthalpha.DRAResourceHealthService}

// HealthOptions configure Health; Sink must be set.
type HealthOptions struct {
	// Sink receives facts about pods. After an error they are reported again.
	Sink func(ctx context.Context, pod string, e *journaletv1.Event) error
	// Now and After are the clock. Default: the machine's.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Health keeps what drivers report of the health of their devices (KEP-4680), and records what of it concerns pods when
// that changes. Without a driver that reports health it does nothing. Its methods may be called concurrently.
type Health struct {
	opts HealthOptions
	wake chan struct{}

	mu sync.Mutex
	// reports are by driver, one for each watched instance, in the order of their registration.
	reports map[string][]*reports
	pods    map[string]*podHealth
	// kept is until when what an earlier run has recorded holds, of drivers that have not begun to report since.
	kept  time.Time
	begun map[string]bool
}

// podHealth is a pod that has claims.
type podHealth struct {
	// devices are the devices of each claim, by the claim's UID. recorded is what the journal has.
	devices  map[string][]*journaletv1.ClaimDevice
	recorded []*journaletv1.ClaimDeviceHealth
}

// deviceKey names a device of a driver.
type deviceKey struct{ pool, device string }

// reports are the newest of an instance of a driver.
type reports struct {
	driver  string
	devices map[deviceKey]report
}

// report is what an instance reports about a device. After until it is unknown.
type report struct {
	health  journaletv1.DeviceHealth
	message string
	until   time.Time
}

// NewHealth returns a Health that records nothing until Run.
func NewHealth(o HealthOptions) *Health {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Health{
		opts: o, wake: make(chan struct{}, 1), reports: map[string][]*reports{}, pods: map[string]*podHealth{},
		kept: o.Now().Add(healthTimeout), begun: map[string]bool{},
	}
}

// Seed adds the claims of a pod by its state at a start.
func (h *Health) Seed(pod string, state *journaletv1.PodClaims) {
	for _, podClaim := range state.GetClaims() {
		if podClaim.GetStage() == journaletv1.ClaimStage_CLAIM_STAGE_PREPARED {
			h.use(pod, podClaim.GetClaim().GetUid(), podClaim.GetDevices())
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pods[pod]; p != nil {
		p.recorded = state.GetHealth()
	}
}

// Stored handles a stored record, or a record that a pod had not handled at a start.
func (h *Health) Stored(rec *journaletv1.Record) {
	f := rec.GetFact().GetCallFinished()
	if ref, err := messages.ParseRef(f.GetRequester()); err == nil {
		for _, o := range f.GetClaimOutcomes() {
			switch o.GetStage() {
			case journaletv1.ClaimStage_CLAIM_STAGE_PREPARED:
				h.use(ref.ID, o.GetUid(), o.GetDevices())
			case journaletv1.ClaimStage_CLAIM_STAGE_UNPREPARED:
				h.leave(ref.ID, o.GetUid())
			default:
			}
		}
	}
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetPodForgotten(); k != nil {
			h.mu.Lock()
			delete(h.pods, k.GetUid())
			h.mu.Unlock()
		}
	}
}

func (h *Health) use(pod, claim string, devices []*journaletv1.ClaimDevice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pods[pod]
	if p == nil {
		p = &podHealth{devices: map[string][]*journaletv1.ClaimDevice{}}
		h.pods[pod] = p
	}
	p.devices[claim] = devices
	h.changed()
}

// leave forgets a claim of a pod, and with its last one the pod: nothing more is recorded of it.
func (h *Health) leave(pod, claim string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pods[pod]; p != nil {
		if delete(p.devices, claim); len(p.devices) == 0 {
			delete(h.pods, pod)
		}
	}
}

// changed has Run check the pods.
func (h *Health) changed() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Run records changes until ctx ends.
func (h *Health) Run(ctx context.Context) error {
	for {
		var later <-chan time.Time
		if wait := h.record(ctx); wait > 0 {
			later = h.opts.After(wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.wake:
		case <-later:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.opts.After(reportPause):
		}
	}
}

// record records the health of a pod's devices, for each pod whose devices' health has changed. It returns how long
// until the health changes by itself; 0: it will not.
func (h *Health) record(ctx context.Context) time.Duration {
	now := h.opts.Now()
	var next time.Time
	due := map[string][]*journaletv1.ClaimDeviceHealth{}
	h.mu.Lock()
	for uid, p := range h.pods {
		all, until := h.ofPod(p, now)
		if !until.IsZero() && (next.IsZero() || until.Before(next)) {
			next = until
		}
		if !slices.EqualFunc(all, p.recorded, func(a, b *journaletv1.ClaimDeviceHealth) bool { return proto.Equal(a, b) }) {
			due[uid] = all
		}
	}
	h.mu.Unlock()
	for uid, all := range due {
		e := messages.NewEvent(&journaletv1.ClaimHealthObserved{Uid: uid, Devices: all})
		if err := h.opts.Sink(ctx, uid, e); err != nil {
			h.opts.Log.Warn("the health of devices was not recorded", "pod", uid, "error", err)
			h.changed()
			continue
		}
		h.mu.Lock()
		if p := h.pods[uid]; p != nil {
			p.recorded = all
		}
		h.mu.Unlock()
	}
	if next.IsZero() {
		return 0
	}
	return max(next.Sub(now), time.Nanosecond)
}

// ofPod returns what is reported of a pod's devices, and until when; zero: for good. The caller holds h.mu.
func (h *Health) ofPod(p *podHealth, now time.Time) (all []*journaletv1.ClaimDeviceHealth, until time.Time) {
	seen := map[[3]string]bool{}
	for _, devices := range p.devices {
		for _, d := range devices {
			key := [3]string{d.GetDriver(), d.GetPool(), d.GetDevice()}
			if seen[key] {
				continue
			}
			seen[key] = true
			one, ends := h.ofDevice(p, d, now)
			if one != nil {
				all = append(all, one)
			}
			if !ends.IsZero() && (until.IsZero() || ends.Before(until)) {
				until = ends
			}
		}
	}
	slices.SortFunc(all, func(a, b *journaletv1.ClaimDeviceHealth) int {
		return cmp.Or(cmp.Compare(a.GetDriver(), b.GetDriver()), cmp.Compare(a.GetPool(), b.GetPool()),
			cmp.Compare(a.GetDevice(), b.GetDevice()))
	})
	size := 0
	for _, d := range all {
		size += proto.Size(d)
	}
	if size > maxMessages {
		for i, d := range all {
			d = proto.CloneOf(d)
			d.Message = ""
			all[i] = d
		}
	}
	return all, until
}

// ofDevice returns what is reported of a device by the newest instance of its driver that says something; nil: nothing.
// The caller holds h.mu.
func (h *Health) ofDevice(
	p *podHealth, d *journaletv1.ClaimDevice, now time.Time,
) (one *journaletv1.ClaimDeviceHealth, until time.Time) {
	for _, r := range slices.Backward(h.reports[d.GetDriver()]) {
		x, ok := r.devices[deviceKey{d.GetPool(), d.GetDevice()}]
		if !ok || !now.Before(x.until) {
			continue
		}
		if x.health == journaletv1.DeviceHealth_DEVICE_HEALTH_UNKNOWN && x.message == "" {
			return nil, time.Time{}
		}
		return &journaletv1.ClaimDeviceHealth{
			Driver: d.GetDriver(), Pool: d.GetPool(), Device: d.GetDevice(), Health: x.health, Message: x.message,
		}, x.until
	}
	if h.begun[d.GetDriver()] || !now.Before(h.kept) {
		return nil, time.Time{}
	}
	for _, x := range p.recorded {
		if x.GetDriver() == d.GetDriver() && x.GetPool() == d.GetPool() && x.GetDevice() == d.GetDevice() {
			return x, h.kept
		}
	}
	return nil, time.Time{}
}

// healthService returns the preferred one of the services of health that a driver names; "": it has none.
func healthService(versions []string) string {
	for _, s := range healthServices {
		if slices.Contains(versions, s) {
			return s
		}
	}
	return ""
}

// watch follows the health of the devices of an instance of a driver until ctx ends, or the driver says that it has no
// such service.
func (h *Health) watch(ctx context.Context, driver, service string, conn *grpc.ClientConn) {
	r := &reports{driver: driver}
	h.mu.Lock()
	h.reports[driver] = append(h.reports[driver], r)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reports[driver] = slices.DeleteFunc(h.reports[driver], func(x *reports) bool { return x == r })
		if len(h.reports[driver]) == 0 {
			delete(h.reports, driver)
		}
		h.changed()
	}()
	client := health.NewDRAResourceHealthClient(conn)
	if service == healthalpha.DRAResourceHealthService {
		client = health.V1Alpha1ClientWrapper{Client: healthalpha.NewDRAResourceHealthClient(conn)}
	}
	for failed := ""; ; {
		err := h.follow(ctx, r, client)
		h.mu.Lock()
		r.devices = nil
		h.changed()
		h.mu.Unlock()
		if ctx.Err() != nil || status.Code(err) == codes.Unimplemented {
			return
		}
		if text := redact.URLs(err.Error()); text != failed {
			failed = text
			h.opts.Log.Warn("the health of a DRA driver's devices is not known", "driver", driver, "error", text)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.opts.After(healthPause):
		}
	}
}

// follow keeps what one stream reports, until it ends.
func (h *Health) follow(ctx context.Context, r *reports, client health.DRAResourceHealthClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.NodeWatchResources(ctx, &health.NodeWatchResourcesRequest{}, grpc.MaxCallRecvMsgSize(maxReport))
	for err == nil {
		var in *health.NodeWatchResourcesResponse
		if in, err = stream.Recv(); err != nil {
			break
		}
		if err = h.keep(r, in.GetDevices()); err != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-h.opts.After(reportPause):
		}
	}
	return fmt.Errorf("NodeWatchResources: %w", err)
}

// keep keeps a report. Devices that it does not name keep what was reported of them until that ends.
func (h *Health) keep(r *reports, all []*health.DeviceHealth) error {
	now := h.opts.Now()
	read := make(map[deviceKey]report, len(all))
	for _, in := range all {
		key := deviceKey{in.GetDevice().GetPoolName(), in.GetDevice().GetDeviceName()}
		if err := checkKey(key); err != nil {
			return err
		}
		read[key] = report{healthOf(in.GetHealth()), messageOf(in.GetMessage()), now.Add(timeoutOf(in))}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, old := range r.devices {
		if _, ok := read[key]; !ok && now.Before(old.until) {
			read[key] = old
		}
	}
	if len(read) > maxHealthDevices {
		return fmt.Errorf("it reports the health of %d devices; at most %d are taken", len(read), maxHealthDevices)
	}
	h.begun[r.driver], r.devices = true, read
	h.changed()
	return nil
}

func checkKey(k deviceKey) error {
	for _, text := range []string{k.pool, k.device} {
		if len(text) > maxText || !utf8.ValidString(text) {
			return fmt.Errorf("it reports the health of a device whose pool or name is not UTF-8, or longer than %d bytes: "+
				"%.64q", maxText, text)
		}
	}
	if k.device == "" {
		return errors.New("it reports the health of a device without a name")
	}
	return nil
}

func healthOf(in health.HealthStatus) journaletv1.DeviceHealth {
	switch in {
	case health.HealthStatus_HEALTHY:
		return journaletv1.DeviceHealth_DEVICE_HEALTH_HEALTHY
	case health.HealthStatus_UNHEALTHY:
		return journaletv1.DeviceHealth_DEVICE_HEALTH_UNHEALTHY
	}
	return journaletv1.DeviceHealth_DEVICE_HEALTH_UNKNOWN
}

// messageOf returns a driver's message as it may be shown: as in the kubelet, a longer one ends with "...".
func messageOf(text string) string {
	return clean.Text(redact.URLs(text), corev1.ResourceHealthMessageMaxLength)
}

// timeoutOf returns how long a report holds.
func timeoutOf(in *health.DeviceHealth) time.Duration {
	seconds := in.GetHealthCheckTimeoutSeconds()
	if seconds <= 0 {
		return healthTimeout
	}
	return time.Duration(min(seconds, int64(math.MaxInt32))) * time.Second
}
