package dra

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	health "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/fakedra"
	"github.com/journalet/journalet/test/must"
)

// recorder keeps the facts that Health records, as "pod: driver/pool/device HEALTH message, ...".
type recorder struct {
	sync.Mutex
	now   time.Time
	fails bool
	facts []string
}

func newHealth(t *testing.T) (*Health, *recorder) {
	r := &recorder{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	return NewHealth(HealthOptions{
		Now: func() time.Time {
			r.Lock()
			defer r.Unlock()
			return r.now
		},
		After: func(time.Duration) <-chan time.Time { return time.After(time.Millisecond) },
		Sink: func(_ context.Context, pod string, e *journaletv1.Event) error {
			r.Lock()
			defer r.Unlock()
			if r.fails {
				return errors.New("the journal is full")
			}
			ref := messages.Pod(pod)
			if audience, _ := messages.Audience(ref, e); !slices.Equal(audience, []messages.Ref{ref}) {
				t.Errorf("the fact is for %v, and about pod %s", audience, pod)
			}
			r.facts = append(r.facts, pod+": "+healthText(e.GetClaimHealthObserved().GetDevices()))
			return nil
		},
	}), r
}

func healthText(all []*journaletv1.ClaimDeviceHealth) string {
	var out []string
	for _, d := range all {
		text := fmt.Sprintf("%s/%s/%s %s", d.GetDriver(), d.GetPool(), d.GetDevice(),
			strings.TrimPrefix(d.GetHealth().String(), "DEVICE_HEALTH_"))
		out = append(out, strings.TrimSpace(text+" "+d.GetMessage()))
	}
	return strings.Join(out, ", ")
}

// want checks what was recorded since it was called the last time.
func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	r.Lock()
	defer r.Unlock()
	slices.Sort(r.facts) // of pods in no order
	if !slices.Equal(r.facts, want) {
		t.Errorf("recorded %q, want %q", r.facts, want)
	}
	r.facts = nil
}

func (r *recorder) pass(d time.Duration) {
	r.Lock()
	defer r.Unlock()
	r.now = r.now.Add(d)
}

// prepared stores that drivers have prepared a claim of a pod, with these devices of pool p.
func (h *Health) prepared(pod, claim, driver string, devices ...string) {
	o := &journaletv1.ClaimOutcome{Uid: claim, Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARED}
	for _, d := range devices {
		o.Devices = append(o.Devices, &journaletv1.ClaimDevice{Driver: driver, Pool: "p", Device: d})
	}
	h.outcome(pod, o)
}

func (h *Health) outcome(pod string, o *journaletv1.ClaimOutcome) {
	h.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.CallFinished{
		Requester: messages.Pod(pod).String(), ClaimOutcomes: []*journaletv1.ClaimOutcome{o},
	})}})
}

func (h *Health) instance(driver string) *reports {
	r := &reports{driver: driver}
	h.reports[driver] = append(h.reports[driver], r)
	return r
}

// reportOf returns a report of one device of pool p.
func reportOf(device string, is health.HealthStatus, message string, seconds int64) *health.DeviceHealth {
	return &health.DeviceHealth{
		Device: &health.DeviceIdentifier{PoolName: "p", DeviceName: device}, Health: is, Message: message,
		HealthCheckTimeoutSeconds: seconds,
	}
}

func TestChangesOfHealthAreRecordedForThePodsConcerned(t *testing.T) {
	h, r := newHealth(t)
	h.prepared("a", "u1", gpu, "d1", "d2")
	h.prepared("b", "u1", gpu, "d1", "d2")
	h.prepared("c", "u2", gpu, "d3")
	old := h.instance(gpu)
	if wait := h.record(t.Context()); wait != 0 {
		t.Errorf("without a report something changes after %s", wait)
	}
	r.want(t)
	must.OK(t, h.keep(old, []*health.DeviceHealth{
		reportOf("d1", health.HealthStatus_HEALTHY, "", 0), reportOf("d9", 1, "", 0),
	}))
	if wait := h.record(t.Context()); wait != healthTimeout {
		t.Errorf("a report holds for %s", wait)
	}
	r.want(t, "a: gpu.example.com/p/d1 HEALTHY", "b: gpu.example.com/p/d1 HEALTHY")
	for range 3 {
		r.pass(10 * time.Second)
		must.OK(t, h.keep(old, []*health.DeviceHealth{reportOf("d1", health.HealthStatus_HEALTHY, "", 0)}))
		h.record(t.Context())
	}
	r.want(t) // nothing has changed

	r.fails = true
	must.OK(t, h.keep(old, []*health.DeviceHealth{
		reportOf("d3", health.HealthStatus_UNHEALTHY, "ECC errors, see https://user:pw@example.com/x", 60),
		reportOf("d2", health.HealthStatus_UNKNOWN, "", 0),
	}))
	h.record(t.Context())
	r.fails = false
	h.record(t.Context())
	r.want(t, "c: gpu.example.com/p/d3 UNHEALTHY ECC errors, see https://(withheld)@example.com/x")
	r.pass(31 * time.Second) // d1 was not reported since, d3 holds for a minute
	h.record(t.Context())
	r.want(t, "a: ", "b: ")

	next := h.instance(gpu)
	must.OK(t, h.keep(next, []*health.DeviceHealth{reportOf("d3", health.HealthStatus_HEALTHY, "", 0)}))
	h.record(t.Context())
	r.want(t, "c: gpu.example.com/p/d3 HEALTHY")

	h.outcome("a", &journaletv1.ClaimOutcome{Uid: "u1", Stage: journaletv1.ClaimStage_CLAIM_STAGE_UNPREPARED})
	h.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
		Decisions: []*journaletv1.Event{messages.NewEvent(&journaletv1.PodForgotten{Uid: "b"})},
	}}})
	must.OK(t, h.keep(next, []*health.DeviceHealth{reportOf("d1", health.HealthStatus_HEALTHY, "", 0)}))
	h.record(t.Context())
	r.want(t)
	if len(h.pods) != 1 {
		t.Errorf("it knows the pods %v", h.pods)
	}
}

func TestHealthOutlivesARestartUntilTheDriverReports(t *testing.T) {
	state := &journaletv1.PodClaims{
		Claims: []*journaletv1.PodClaim{{
			Claim: claimOf("u1", gpu, nic), Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARED,
			Devices: []*journaletv1.ClaimDevice{
				{Driver: gpu, Pool: "p", Device: "d1"}, {Driver: nic, Pool: "p", Device: "d2"},
			},
		}},
		Health: []*journaletv1.ClaimDeviceHealth{
			{Driver: gpu, Pool: "p", Device: "d1", Health: journaletv1.DeviceHealth_DEVICE_HEALTH_HEALTHY},
			{Driver: nic, Pool: "p", Device: "d2", Health: journaletv1.DeviceHealth_DEVICE_HEALTH_HEALTHY},
		},
	}
	h, r := newHealth(t)
	h.Seed("a", state)
	h.record(t.Context())
	r.pass(time.Second)
	i := h.instance(gpu)
	h.record(t.Context())
	r.want(t)
	must.OK(t, h.keep(i, []*health.DeviceHealth{reportOf("d1", health.HealthStatus_HEALTHY, "", 0)}))
	h.record(t.Context())
	r.want(t)
	delete(h.reports, gpu) // the driver has left
	if wait := h.record(t.Context()); wait != healthTimeout-time.Second {
		t.Errorf("the other driver has %s to come back", wait)
	}
	r.want(t, "a: nic.example.com/p/d2 HEALTHY")
	r.pass(healthTimeout)
	h.record(t.Context())
	r.want(t, "a: ")
}

func TestHostileReportsOfHealthAreRefusedOrCut(t *testing.T) {
	h, r := newHealth(t)
	i := h.instance(gpu)
	var many []*health.DeviceHealth
	for n := range maxHealthDevices + 1 {
		many = append(many, reportOf(fmt.Sprint("d", n), health.HealthStatus_HEALTHY, "", 0))
	}
	for name, all := range map[string][]*health.DeviceHealth{
		"at most 4096 are taken":      many,
		"longer than 512 bytes":       {reportOf(strings.Repeat("x", maxText+1), 1, "", 0)},
		"not UTF-8":                   {reportOf("\xff", 1, "", 0)},
		"a device without a name":     {reportOf("", 1, "", 0)},
		"a device without a name ...": {nil},
	} {
		if err := h.keep(i, all); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(name, " ...")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.OK(t, h.keep(i, many[:maxHealthDevices]))
	r.pass(time.Minute) // what has expired makes room
	h.prepared("a", "u1", gpu, "new")
	must.OK(t, h.keep(i, []*health.DeviceHealth{reportOf("new", 77, strings.Repeat("ä", 1000)+"\xff", math.MaxInt64)}))
	if wait := h.record(t.Context()); wait < 24*time.Hour {
		t.Errorf("a report that holds for ever ends after %s", wait)
	}
	r.Lock()
	defer r.Unlock()
	got := strings.TrimPrefix(r.facts[0], "a: gpu.example.com/p/new UNKNOWN ")
	if len(got) > 1024 || !strings.HasSuffix(got, "ä...") {
		t.Errorf("a message of %d bytes: %q", len(got), got)
	}
}

func TestManyMessagesAreLeftOut(t *testing.T) {
	h, r := newHealth(t)
	i := h.instance(gpu)
	var names []string
	var all []*health.DeviceHealth
	for n := range 100 {
		names = append(names, fmt.Sprint("d", n))
		all = append(all, reportOf(names[n], health.HealthStatus_UNHEALTHY, strings.Repeat("m", 1000), 0))
	}
	h.prepared("a", "u1", gpu, names...)
	must.OK(t, h.keep(i, all))
	h.record(t.Context())
	if n := strings.Count(r.facts[0], "UNHEALTHY"); n != 100 || strings.Contains(r.facts[0], "mmm") {
		t.Errorf("%d devices in %.200s", n, r.facts[0])
	}
}

func TestHealthOfDriversIsWatched(t *testing.T) {
	for _, alpha := range []bool{false, true} {
		h, r := newHealth(t)
		h.prepared("a", "u1", gpu, "d1")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		drivers := NewDrivers(DriverOptions{NewConn: plugins.NewConn, Health: h})
		ended := make(chan struct{}, 2) // as many as there are streams below
		d := &fakedra.Driver{
			Name: gpu, AlphaHealth: alpha, Health: make(chan *health.NodeWatchResourcesResponse),
			HealthEnded: func() { ended <- struct{}{} },
		}
		socket, end := fakedra.Start(t, d, t.TempDir())
		must.OK(t, drivers.Register(gpu, socket, d.Services()))
		silent := &fakedra.Driver{Name: nic, Health: make(chan *health.NodeWatchResourcesResponse)}
		services := silent.Services()
		silent.Health = nil
		other, _ := fakedra.Start(t, silent, t.TempDir())
		must.OK(t, drivers.Register(nic, other, services)) // it says that it has the service, and has not
		for _, is := range []health.HealthStatus{health.HealthStatus_HEALTHY, health.HealthStatus_UNHEALTHY} {
			d.Health <- &health.NodeWatchResourcesResponse{Devices: []*health.DeviceHealth{reportOf("d1", is, "m", 0)}}
			r.await(t, "a: gpu.example.com/p/d1 "+is.String()+" m")
		}
		d.Health <- &health.NodeWatchResourcesResponse{Devices: []*health.DeviceHealth{reportOf("", 1, "", 0)}}
		r.await(t, "a: ")
		<-ended // The ended stream takes no report any more: another one begins.
		d.Health <- &health.NodeWatchResourcesResponse{Devices: []*health.DeviceHealth{reportOf("d1", 1, "", 0)}}
		r.await(t, "a: gpu.example.com/p/d1 HEALTHY")
		end()
		r.await(t, "a: ")
		drivers.Deregister(gpu, socket)
		drivers.Deregister(nic, other)
		drivers.running.Wait()
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(h.reports) > 0 {
			t.Errorf("reports are left: %v", h.reports)
		}
	}
}

// await waits until the newest fact is this.
func (r *recorder) await(t *testing.T, want string) {
	t.Helper()
	must.Eventually(t, time.Minute, "recorded", func() (string, bool) {
		r.Lock()
		defer r.Unlock()
		n := len(r.facts)
		return fmt.Sprintf("%q, and not %q", r.facts, want), n > 0 && r.facts[n-1] == want
	})
}
