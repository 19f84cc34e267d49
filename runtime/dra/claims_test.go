package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/fakedra"
	"github.com/journalet/journalet/test/must"
)

const (
	gpu    = "gpu.example.com"
	nic    = "nic.example.com"
	thisOS = "boot-1"
)

// node is a node with DRA drivers.
type node struct {
	*testing.T
	*Claims
	drivers *Drivers
}

func newNode(t *testing.T, all ...*fakedra.Driver) *node {
	n := &node{T: t, drivers: NewDrivers(DriverOptions{NewConn: plugins.NewConn, Timeout: time.Minute})}
	n.restart()
	for _, d := range all {
		n.register(d)
	}
	return n
}

// restart forgets all that is not recorded.
func (n *node) restart() { n.Claims = New(Options{BootID: thisOS, Drivers: n.drivers}) }

func (n *node) register(d *fakedra.Driver) (socket string, stop func()) {
	socket, stop = fakedra.Start(n, d, n.TempDir())
	must.OK(n, n.drivers.Validate(d.Name, d.Services()))
	must.OK(n, n.drivers.Register(d.Name, socket, d.Services()))
	return socket, stop
}

// request stores that a pod requests the preparation of claims.
func (n *node) request(pod string, all ...*journaletv1.ResourceClaim) {
	call := messages.NewCall(&journaletv1.PrepareClaims{Claims: all})
	call.PodUid = pod
	n.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
		Decisions: []*journaletv1.Event{messages.NewEvent(call)},
	}}})
}

// prepare requests and prepares claims of a pod.
func (n *node) prepare(pod string, all ...*journaletv1.ResourceClaim) []*journaletv1.ClaimOutcome {
	n.Helper()
	n.request(pod, all...)
	out, err := n.Prepare(n.Context(), pod, all)
	must.OK(n, err)
	return out
}

func (n *node) unprepare(pod string, all ...*journaletv1.ResourceClaim) []*journaletv1.ClaimOutcome {
	n.Helper()
	out, err := n.Unprepare(n.Context(), pod, all)
	must.OK(n, err)
	return out
}

// claimOf returns a claim of these drivers.
func claimOf(uid string, drivers ...string) *journaletv1.ResourceClaim {
	return &journaletv1.ResourceClaim{
		PodClaims: []string{uid}, Namespace: "d", Name: "c-" + uid, Uid: uid, Prepare: drivers, Unprepare: drivers,
	}
}

// texts names where claims stand: "u1=PREPARED gpu.example.com/claim=u1" or "u1=READ: why".
func texts(all []*journaletv1.ClaimOutcome) []string {
	var out []string
	for _, o := range all {
		text := o.GetUid() + "=" + strings.TrimPrefix(o.GetStage().String(), "CLAIM_STAGE_")
		for _, d := range o.GetDevices() {
			text += " " + strings.Join(d.GetCdiDevices(), ",")
		}
		if o.GetMessage() != "" {
			text += ": " + o.GetMessage()
		}
		out = append(out, text)
	}
	return out
}

func (n *node) want(got []*journaletv1.ClaimOutcome, want ...string) {
	n.Helper()
	if !slices.EqualFunc(texts(got), want, strings.HasPrefix) {
		n.Errorf("got %q, want %q", texts(got), want)
	}
}

func (n *node) wantCalls(d *fakedra.Driver, want ...string) {
	n.Helper()
	if got := d.Calls(); !slices.Equal(got, want) {
		n.Errorf("driver %s was called %q, want %q", d.Name, got, want)
	}
}

func TestDriversPrepareAndUnprepareTheirClaims(t *testing.T) {
	for _, beta := range []bool{false, true} {
		g, w := &fakedra.Driver{Name: gpu, Beta: beta}, &fakedra.Driver{Name: nic}
		n := newNode(t, g, w)
		both, one := claimOf("u1", gpu, nic), claimOf("u2", gpu)
		n.want(n.prepare("a", both, one), "u1=PREPARED gpu.example.com/claim=u1 nic.example.com/claim=u1",
			"u2=PREPARED gpu.example.com/claim=u2")
		n.wantCalls(g, "prepare u1", "prepare u2")
		n.wantCalls(w, "prepare u1")
		n.want(n.unprepare("a", both, one), "u1=UNPREPARED", "u2=UNPREPARED")
		n.wantCalls(g, "unprepare u1", "unprepare u2")
		if len(g.Held())+len(w.Held())+len(n.byUID) > 0 {
			t.Errorf("held: %v, %v; known: %v", g.Held(), w.Held(), n.byUID)
		}
	}
}

func TestPreparedClaimIsNotPreparedAgain(t *testing.T) {
	g := &fakedra.Driver{Name: gpu}
	n, c := newNode(t, g), claimOf("u1", gpu)
	first := n.prepare("a", c)
	g.Prepared = func(r *dra.NodePrepareResourcesResponse) { r.Claims["u1"].Devices[0].DeviceName = "another" }
	second := n.prepare("b", c)
	n.wantCalls(g, "prepare u1")
	if first[0].GetDevices()[0].GetDevice() != second[0].GetDevices()[0].GetDevice() {
		t.Errorf("pods of one claim have different devices: %v, %v", first, second)
	}
	// Nor after a restart of the agent.
	n.restart()
	n.Seed("a", &journaletv1.PodClaims{Claims: []*journaletv1.PodClaim{{
		Claim: c, Stage: first[0].GetStage(), Devices: first[0].GetDevices(), BootId: first[0].GetBootId(),
	}}})
	if third := n.prepare("b", c); third[0].GetDevices()[0].GetDevice() != "dev-u1" {
		t.Errorf("got %v", third)
	}
	n.wantCalls(g)
}

func TestOutcomeThatThePodHasNotHandledCounts(t *testing.T) {
	g := &fakedra.Driver{Name: gpu}
	n, c := newNode(t, g), claimOf("u1", gpu)
	out := n.prepare("a", c)
	n.wantCalls(g, "prepare u1")
	n.restart()
	n.Seed("a", &journaletv1.PodClaims{Claims: []*journaletv1.PodClaim{{
		Claim: c, Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARING,
	}}})
	n.SeedPending("a", &journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(
		&journaletv1.CallFinished{ClaimOutcomes: out})}})
	n.prepare("b", c)
	n.wantCalls(g)
}

func TestClaimIsPreparedAgainAfterAReboot(t *testing.T) {
	g := &fakedra.Driver{Name: gpu}
	n, c := newNode(t, g), claimOf("u1", gpu)
	n.Seed("a", &journaletv1.PodClaims{Claims: []*journaletv1.PodClaim{{
		Claim: c, Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARED, BootId: "boot-0",
	}}})
	n.prepare("a", c)
	n.wantCalls(g, "prepare u1")
}

func TestLastPodOfAClaimUnpreparesIt(t *testing.T) {
	g := &fakedra.Driver{Name: gpu}
	n, c := newNode(t, g), claimOf("u1", gpu)
	n.prepare("a", c)
	n.request("b", c) // recorded, and not begun
	n.want(n.unprepare("a", c), "u1=UNPREPARED")
	n.wantCalls(g, "prepare u1")
	n.want(n.unprepare("b", c), "u1=UNPREPARED")
	n.wantCalls(g, "unprepare u1")
}

// The claims of a pod that an agent without its journal has found may be prepared: it uses them while their driver is
// not there, too.
func TestClaimInDoubtIsInUseWithoutItsDriver(t *testing.T) {
	g := &fakedra.Driver{Name: gpu}
	n, c := newNode(t), claimOf("u1", gpu)
	call := messages.NewCall(&journaletv1.PrepareClaims{Claims: []*journaletv1.ResourceClaim{c}, InDoubt: []string{"u1"}})
	call.PodUid = "a"
	n.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
		Decisions: []*journaletv1.Event{messages.NewEvent(call)},
	}}})
	out, err := n.Prepare(n.Context(), "a", []*journaletv1.ResourceClaim{c})
	must.OK(t, err)
	n.want(out, "u1=PREPARING: DRA driver gpu.example.com is not registered")
	n.register(g)
	n.prepare("b", c)
	n.want(n.unprepare("b", c), "u1=UNPREPARED")
	n.wantCalls(g, "prepare u1")
	n.want(n.unprepare("a", c), "u1=UNPREPARED")
	n.wantCalls(g, "unprepare u1")
}

func TestPodThatIsForgottenUsesNoClaim(t *testing.T) {
	g := &fakedra.Driver{Name: gpu}
	n, c := newNode(t, g), claimOf("u1", gpu)
	n.prepare("a", c)
	n.request("b", c)
	n.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
		Decisions: []*journaletv1.Event{messages.NewEvent(&journaletv1.PodForgotten{Uid: "b"})},
	}}})
	n.unprepare("a", c)
	n.wantCalls(g, "prepare u1", "unprepare u1")
}

func TestNoDriverIsCalledUnlessAllAreThere(t *testing.T) {
	g := &fakedra.Driver{Name: gpu}
	n, c := newNode(t, g), claimOf("u1", gpu, nic)
	n.want(n.prepare("a", c), "u1=READ: DRA driver nic.example.com is not registered (registered: gpu.example.com)")
	n.wantCalls(g)
	n.want(n.unprepare("a", c), "u1=UNPREPARED") // a pod that ends has nothing to undo
	n.wantCalls(g)

	w := &fakedra.Driver{Name: nic}
	_, stop := n.register(w)
	n.want(n.prepare("a", c), "u1=PREPARED")
	stop()
	n.wantCalls(g, "prepare u1")
	n.want(n.unprepare("a", c), "u1=PREPARING: DRA driver nic.example.com: NodeUnprepareResources")
	n.wantCalls(g, "unprepare u1")
	n.register(w)
	n.want(n.unprepare("a", c), "u1=UNPREPARED")
	n.wantCalls(w, "prepare u1", "unprepare u1")
}

func TestUnprepareWaitsForADriverThatIsGone(t *testing.T) {
	g, w := &fakedra.Driver{Name: gpu}, &fakedra.Driver{Name: nic}
	n, c := newNode(t, g), claimOf("u1", gpu, nic)
	socket, _ := n.register(w)
	n.prepare("a", c)
	n.drivers.Deregister(nic, socket)
	n.want(n.unprepare("a", c), "u1=PREPARING: DRA driver nic.example.com is not registered")
	n.want(n.unprepare("a", c), "u1=PREPARING: DRA driver nic.example.com is not registered")
	if len(w.Held()) == 0 {
		t.Error("nothing is held")
	}
}

func TestClaimThatADriverMayHavePreparedIsUnprepared(t *testing.T) {
	g := &fakedra.Driver{Name: gpu, After: func(context.Context, string, []string) error { return errors.New("lost") }}
	n, c := newNode(t, g), claimOf("u1", gpu)
	n.want(n.prepare("a", c), "u1=PREPARING: DRA driver gpu.example.com: NodePrepareResources: ")
	n.want(n.unprepare("a", c), "u1=PREPARING: DRA driver gpu.example.com: NodeUnprepareResources: ")
	g.After = nil
	n.want(n.unprepare("a", c), "u1=UNPREPARED")
	n.wantCalls(g, "prepare u1", "unprepare u1", "unprepare u1")

	// After a restart of the agent it is not known whether a driver was called.
	n.restart()
	n.Seed("a", &journaletv1.PodClaims{Claims: []*journaletv1.PodClaim{{
		Claim: c, Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARING,
	}}})
	n.want(n.unprepare("a", c), "u1=UNPREPARED")
	n.wantCalls(g, "unprepare u1")
}

func TestWrongAnswersAreRefusedByName(t *testing.T) {
	change := func(f func(*dra.NodePrepareResourceResponse)) func(*dra.NodePrepareResourcesResponse) {
		return func(r *dra.NodePrepareResourcesResponse) { f(r.Claims["u1"]) }
	}
	for want, lie := range map[string]func(*dra.NodePrepareResourcesResponse){
		"NodePrepareResources skipped ResourceClaim c-u1": func(r *dra.NodePrepareResourcesResponse) {
			clear(r.Claims)
		},
		"NodePrepareResources failed for ResourceClaim c-u1: no memory": change(func(a *dra.NodePrepareResourceResponse) {
			a.Error = "no memory"
		}),
		`names the CDI device "../etc", which is none`: change(func(a *dra.NodePrepareResourceResponse) {
			a.Devices[0].CdiDeviceIds = []string{"../etc"}
		}),
		"of 600 bytes; at most 512 are taken": change(func(a *dra.NodePrepareResourceResponse) {
			a.Devices[0].PoolName = strings.Repeat("x", 600)
		}),
		"at most 32768 are taken": change(func(a *dra.NodePrepareResourceResponse) {
			for range 2000 {
				a.Devices = append(a.Devices, a.Devices[0])
			}
		}),
		"larger than max": change(func(a *dra.NodePrepareResourceResponse) {
			a.Devices[0].PoolName = strings.Repeat("x", maxAnswer)
		}),
	} {
		g := &fakedra.Driver{Name: gpu, Prepared: lie}
		n, c := newNode(t, g), claimOf("u1", gpu)
		out := n.prepare("a", c)
		if out[0].GetStage() != journaletv1.ClaimStage_CLAIM_STAGE_PREPARING || !strings.Contains(out[0].GetMessage(), want) {
			t.Errorf("got %q, want %q", texts(out), want)
		}
		g.Prepared = nil
		n.want(n.prepare("a", c), "u1=PREPARED gpu.example.com/claim=u1")
	}
	for want, lie := range map[string]func(*dra.NodeUnprepareResourcesResponse){
		"NodeUnprepareResources skipped ResourceClaim c-u1": func(r *dra.NodeUnprepareResourcesResponse) { clear(r.Claims) },
		"NodeUnprepareResources failed for ResourceClaim c-u1: busy": func(r *dra.NodeUnprepareResourcesResponse) {
			r.Claims["u1"].Error = "busy"
		},
	} {
		n, c := newNode(t, &fakedra.Driver{Name: gpu, Unprepared: lie}), claimOf("u1", gpu)
		n.prepare("a", c)
		n.want(n.unprepare("a", c), "u1=PREPARING: DRA driver gpu.example.com: "+want)
	}
}

func TestDriverThatHangsHoldsUpItsClaimOnly(t *testing.T) {
	began := make(chan struct{})
	g := &fakedra.Driver{Name: gpu}
	g.Before = func(ctx context.Context, _ string, uids []string) error {
		if !slices.Contains(uids, "u1") {
			return nil
		}
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}
	n, c := newNode(t, g), claimOf("u1", gpu)
	n.request("a", c)
	n.request("b", c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := n.Prepare(ctx, "a", []*journaletv1.ResourceClaim{c})
		done <- err
	}()
	<-began
	n.want(n.prepare("c", claimOf("u2", gpu)), "u2=PREPARED")
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := n.Prepare(ended, "b", []*journaletv1.ResourceClaim{c}); err == nil ||
		!strings.Contains(err.Error(), "another call for ResourceClaim c-u1 is under way") {
		t.Errorf("got %v", err)
	}
	cancel()
	must.OK(t, <-done)
	g.Lock()
	g.Before = nil
	g.Unlock()
	n.want(n.prepare("b", c), "u1=PREPARED")
}

func TestCallHasADeadline(t *testing.T) {
	g := &fakedra.Driver{Name: gpu, Before: func(ctx context.Context, _ string, _ []string) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	n := newNode(t)
	n.drivers.opts.Timeout = time.Millisecond
	n.register(g)
	n.want(n.prepare("a", claimOf("u1", gpu)), "u1=PREPARING: DRA driver gpu.example.com: NodePrepareResources: "+
		"rpc error: code = DeadlineExceeded")
}

func TestNewestInstanceOfADriverIsCalled(t *testing.T) {
	old, updated := &fakedra.Driver{Name: gpu}, &fakedra.Driver{Name: gpu}
	n := newNode(t, old)
	socket, _ := n.register(updated)
	n.prepare("a", claimOf("u1", gpu))
	n.wantCalls(updated, "prepare u1")
	n.drivers.Deregister(gpu, socket)
	n.prepare("a", claimOf("u2", gpu))
	n.wantCalls(old, "prepare u2")
}

func TestNamesAndServicesOfDriversAreChecked(t *testing.T) {
	d := NewDrivers(DriverOptions{})
	must.OK(t, d.Validate(gpu, []string{"v1.DRAResourceHealth", "v1beta1.DRAPlugin"}))
	for _, name := range []string{"", "../x", "a/b", "A.example.com", strings.Repeat("a", 64)} {
		if d.Validate(name, []string{dra.DRAPluginService}) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	for _, versions := range [][]string{nil, {"v1alpha4.Node"}, {"1.0.0"}} {
		if d.Validate(gpu, versions) == nil {
			t.Errorf("%q are accepted", versions)
		}
	}
}

// objects are the objects of an API server.
type objects struct {
	pod    *corev1.Pod
	claims map[string]*resourcev1.ResourceClaim
}

func (o *objects) Claim(_ context.Context, _, name string) (*resourcev1.ResourceClaim, error) {
	if c := o.claims[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("resourceclaims %q not found", name)
}

func (o *objects) Pod(context.Context, string, string) (*corev1.Pod, error) { return o.pod, nil }

// A pod that was deleted by force is gone at the API server, which allocates its claim again, while it runs here.
func TestClaimThatWasAllocatedAgainWaitsForItsEarlierPod(t *testing.T) {
	g := &fakedra.Driver{Name: gpu}
	n, earlier, later := newNode(t, g), claimOf("u1", gpu), claimOf("u1", gpu)
	earlier.Allocation, later.Allocation = "1", "2"
	n.prepare("a", earlier)
	n.wantCalls(g, "prepare u1")
	n.want(n.prepare("b", later), "u1=READ: ResourceClaim c-u1 was allocated again")
	n.request("b", later) // recorded, and not begun
	n.wantCalls(g)
	n.want(n.unprepare("a", earlier), "u1=UNPREPARED")
	n.wantCalls(g, "unprepare u1")
	n.want(n.prepare("b", later), "u1=PREPARED")
	n.want(n.prepare("c", later), "u1=PREPARED")
	n.wantCalls(g, "prepare u1")

	// After a restart, too, whichever pod comes first.
	for _, order := range []string{"ab", "ba"} {
		n.restart()
		for _, pod := range order {
			claim, stage := earlier, journaletv1.ClaimStage_CLAIM_STAGE_PREPARED
			if pod == 'b' {
				claim, stage = later, journaletv1.ClaimStage_CLAIM_STAGE_PREPARING
			}
			n.Seed(string(pod), &journaletv1.PodClaims{Claims: []*journaletv1.PodClaim{{
				Claim: claim, Stage: stage, BootId: thisOS,
			}}})
		}
		n.want(n.prepare("b", later), "u1=PREPARING: ResourceClaim c-u1 was allocated again")
		n.want(n.unprepare("b", later), "u1=UNPREPARED")
		n.wantCalls(g)
		n.request("b", later)
		n.want(n.unprepare("a", earlier), "u1=UNPREPARED")
		n.want(n.prepare("b", later), "u1=PREPARED")
		n.wantCalls(g, "unprepare u1", "prepare u1")
	}

	// Records of earlier versions have no allocation: it counts as the same one.
	n.restart()
	n.prepare("a", claimOf("u1", gpu))
	n.want(n.prepare("b", later), "u1=PREPARED")
	n.unprepare("a", claimOf("u1", gpu))
	n.unprepare("b", later)
	n.wantCalls(g, "prepare u1", "unprepare u1")
}
