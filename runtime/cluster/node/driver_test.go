package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

// world is a driver and its API server.
type world struct {
	*testing.T
	api    *fakeapi.Server
	driver *Driver

	mu      sync.Mutex
	runtime Runtime
	facts   []proto.Message
	events  []string
	now     time.Time
	random  float64
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{T: t, api: fakeapi.New(), now: time.Now().Truncate(time.Second), random: .5}
	w.api.Now = w.clock
	o.Settings.Name, o.Settings.MaxImages = "n", 50
	o.Settings.Addresses = []string{"10.0.0.1"}
	o.Settings.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	o.Settings.Reserved = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	o.Update, o.Report, o.Lease = 10*time.Second, 5*time.Minute, 40*time.Second
	o.Log, o.Now = slog.New(slog.DiscardHandler), w.clock
	o.Runtime = func(context.Context) Runtime {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.runtime
	}
	o.Sink = func(_ context.Context, m proto.Message) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.facts = append(w.facts, m)
		return nil
	}
	o.Emit = func(reason, message string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if want := "Node n status is now: " + reason; message != want {
			w.Errorf("message %q, want %q", message, want)
		}
		w.events = append(w.events, reason)
	}
	o.Random = func() float64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.random
	}
	w.driver = New(o)
	return w
}

// untilEmitted waits for the next events, all of them in any order, and forgets them.
func (w *world) untilEmitted(want ...string) {
	w.Helper()
	w.until("emitted: "+strings.Join(want, " "), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.events) < len(want) {
			return false
		}
		slices.Sort(w.events)
		slices.Sort(want)
		if !slices.Equal(w.events, want) {
			w.Fatalf("emitted %q, want %q", w.events, want)
		}
		w.events = nil
		return true
	})
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// pass lets time pass for the driver.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
	w.driver.change(func() {})
}

func (w *world) run() {
	w.Helper()
	c, err := client.New(client.Options{
		Config: &rest.Config{Host: w.api.Start(w)}, NodeName: "n", ContentType: "application/json",
		Main: client.Limits{QPS: 1000, Burst: 1000}, HeartbeatTimeout: time.Minute,
	})
	must.OK(w, err)
	w.driver.opts.Client = c
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- w.driver.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		must.OK(w, <-done)
	})
}

// until waits for a condition of the world.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			var n corev1.Node
			w.api.Get("nodes", "", "n", &n)
			w.Fatalf("not %s; node %+v\nrequests %v", what, n, w.api.Requests(""))
		}
	}
}

func (w *world) node() *corev1.Node {
	var n corev1.Node
	if !w.api.Get("nodes", "", "n", &n) {
		return nil
	}
	return &n
}

func ready(n *corev1.Node) (corev1.ConditionStatus, string) {
	if n == nil {
		return "", ""
	}
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return "", ""
	}
	return n.Status.Conditions[i].Status, n.Status.Conditions[i].Message
}

func (w *world) untilReady(want corev1.ConditionStatus) {
	w.Helper()
	w.until("ready="+string(want), func() bool { got, _ := ready(w.node()); return got == want })
}

func health() *journaletv1.Record {
	return &journaletv1.Record{Body: &journaletv1.Record_Fact{
		Fact: messages.NewEvent(&journaletv1.RuntimeHealthChanged{}),
	}}
}

func TestNodeIsCreatedAndReadyAtOnce(t *testing.T) {
	w := newWorld(t, Options{Register: true, Settings: Settings{
		Labels: map[string]string{"zone": "a"}, ProviderID: "p", External: true,
		Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}},
	}})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	n := w.node()
	if n.Labels["zone"] != "a" || n.Labels[corev1.LabelHostname] != "n" || n.Spec.ProviderID != "p" ||
		len(n.Spec.Taints) != 2 || n.Annotations[attachAnnotation] != "true" {
		t.Errorf("created %+v", n)
	}
	if q := n.Status.Allocatable[corev1.ResourceMemory]; q.String() != "3Gi" {
		t.Errorf("allocatable memory is %s, want 3Gi", q.String())
	}
	if n.Status.Conditions[len(n.Status.Conditions)-1].Type != corev1.NodeReady {
		t.Error("Ready is not the last condition")
	}
	if in := n.Status.NodeInfo.RunningInUserNamespace; in == nil || *in {
		t.Errorf("in a user namespace: %v, want false", in)
	}
	w.until("leased", func() bool {
		var l coordinationv1.Lease
		return w.api.Get("leases.coordination.k8s.io", leaseNamespace, "n", &l) && l.OwnerReferences[0].UID == n.UID
	})
	var csi storagev1.CSINode
	if !w.api.Get("csinodes.storage.k8s.io", "", "n", &csi) {
		t.Error("there is no CSINode")
	}
}

func TestExistingNodeKeepsWhatOthersSet(t *testing.T) {
	for name, code := range map[string]int{"conflict": 0, "forbidden": http.StatusForbidden} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{Register: true, Settings: Settings{
				Labels: map[string]string{"zone": "a"}, ProviderID: "p",
				Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}},
			}})
			w.api.Create("nodes", &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
					corev1.LabelHostname: "other", "kept": "yes",
				}},
				Spec: corev1.NodeSpec{ProviderID: "first", Unschedulable: true},
				Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"vendor.com/gpu": resource.MustParse("4")},
					Allocatable: corev1.ResourceList{"vendor.com/gpu": resource.MustParse("4")},
					Conditions:  []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse}}},
			})
			w.api.Faults = func(r fakeapi.APIRequest) *fakeapi.Fault {
				if code != 0 && r.Verb == "create" && r.Resource == "nodes" {
					return &fakeapi.Fault{Code: code, Reason: "Forbidden"}
				}
				return nil
			}
			w.run()
			w.untilReady(corev1.ConditionTrue)
			n := w.node()
			gpu := n.Status.Capacity["vendor.com/gpu"]
			if n.Labels["zone"] != "" || n.Labels["kept"] != "yes" || n.Labels[corev1.LabelHostname] != "n" ||
				n.Spec.ProviderID != "first" || len(n.Spec.Taints) != 0 || !n.Spec.Unschedulable || !gpu.IsZero() ||
				n.Annotations[attachAnnotation] != "true" || n.Status.Conditions[0].Type != corev1.NodeNetworkUnavailable {
				t.Errorf("became %+v", n)
			}
		})
	}
}

func TestNodeThatIsDeletedIsCreatedAgain(t *testing.T) {
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			w := newWorld(t, Options{Register: true, RegisterDeleted: again})
			w.run()
			w.untilReady(corev1.ConditionTrue)
			first := w.node().UID
			w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
			w.api.Delete("nodes", "", "n", 0)
			w.until("seen", func() bool { return w.driver.Node() == nil })
			creations := len(w.api.Requests("create nodes"))
			w.pass(deletedFor / 2)
			w.pass(deletedFor)
			if again {
				w.until("created", func() bool { n := w.node(); return n != nil && n.UID != first })
				w.untilReady(corev1.ConditionTrue)
				return
			}
			w.pass(time.Hour)
			if w.node() != nil || len(w.api.Requests("create nodes")) != creations {
				t.Error("the Node was created again")
			}
		})
	}
}

func TestReadyFollowsTheRuntimeAndShutdown(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.mu.Lock()
	w.runtime.Down = "stopped"
	w.mu.Unlock()
	w.driver.Stored(health())
	w.untilReady(corev1.ConditionFalse)
	if _, message := ready(w.node()); message != "container runtime is down: stopped" {
		t.Errorf("message %q", message)
	}
	w.mu.Lock()
	w.runtime.Down, w.runtime.Problem, w.runtime.NetworkProblem = "", "RuntimeReady=false", "NetworkReady=false"
	w.mu.Unlock()
	w.driver.Stored(health())
	w.until("another reason", func() bool {
		_, message := ready(w.node())
		return message == "[container runtime not ready: RuntimeReady=false, "+
			"container runtime network not ready: NetworkReady=false]"
	})
	w.mu.Lock()
	w.runtime = Runtime{}
	w.mu.Unlock()
	w.driver.Stored(health())
	w.untilReady(corev1.ConditionTrue)
	w.driver.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{
		Fact: messages.NewEvent(&journaletv1.ShutdownSignaled{Active: true}),
	}})
	w.untilReady(corev1.ConditionFalse)
	if _, message := ready(w.node()); message != "node is shutting down" {
		t.Errorf("message %q", message)
	}
}

// An object that cannot be read is no reason to evict everybody: the node says so, and stays Ready.
func TestNodeThatMayLackPodsSaysSoAndStaysReady(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	for _, step := range []struct {
		incomplete error
		message    string
	}{
		{errors.New("the list has objects"), "kubelet is posting ready status. WARNING: the list has objects"},
		{nil, "kubelet is posting ready status"},
	} {
		w.driver.PodsListed(step.incomplete)
		w.until(step.message, func() bool {
			status, message := ready(w.node())
			if status != corev1.ConditionTrue {
				t.Fatalf("Ready is %s: %s", status, message)
			}
			return message == step.message
		})
	}
}

// A runtime that restarts between two observations of its health changes no record.
func TestRuntimeThatHadAProblemIsInspectedAgain(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	says := func(r Runtime) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.runtime = r
	}
	for _, problem := range []Runtime{{Down: "refused"}, {Problem: "starting"}, {NetworkProblem: "no network"}} {
		says(problem)
		w.driver.Stored(health())
		w.untilReady(corev1.ConditionFalse)
		says(Runtime{})
		w.pass(w.driver.opts.Update)
		w.untilReady(corev1.ConditionTrue)
	}
}

func TestUnchangedStatusIsSentOnlyAsAReport(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
	patches := func() int { return len(w.api.Requests("patch nodes/status")) }
	before := patches()
	for range 20 {
		w.pass(10 * time.Second)
	}
	w.driver.Stored(health()) // an inspection without a difference
	w.until("inspected", func() bool { w.driver.mu.Lock(); defer w.driver.mu.Unlock(); return !w.driver.urgent })
	if got := patches(); got != before {
		t.Errorf("%d patches without a change", got-before)
	}
	w.pass(5 * time.Minute)
	w.until("reported", func() bool { return patches() == before+1 })
}

func TestForeignEditOfTheStatusIsOverwrittenBeforeLong(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
	var n corev1.Node
	w.api.Change("nodes", "status", "", "n", &n, func() {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "6.6.6.6"}}
	})
	w.until("seen", func() bool { return len(w.driver.Node().Status.Addresses) == 1 })
	w.pass(11 * time.Second)
	w.until("corrected", func() bool {
		a := w.node().Status.Addresses
		return len(a) == 2 && a[0].Address == "10.0.0.1"
	})
}

// A clock that is set back holds up no status: what is due follows another one.
func TestClockSetBackHoldsUpNoStatus(t *testing.T) {
	var passed atomic.Int64
	start := time.Now()
	w := newWorld(t, Options{
		Register: true, Monotonic: func() time.Time { return start.Add(time.Duration(passed.Load())) },
	})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
	var n corev1.Node
	w.api.Change("nodes", "status", "", "n", &n, func() { n.Status.Addresses = nil })
	w.until("seen", func() bool { return len(w.driver.Node().Status.Addresses) == 0 })
	passed.Store(int64(11 * time.Second))
	w.pass(-time.Hour)
	w.until("corrected", func() bool { return len(w.node().Status.Addresses) == 2 })
}

func TestNodeIsRecordedOnlyOnChange(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	w.run()
	w.untilReady(corev1.ConditionTrue)
	w.until("watching", func() bool { return w.api.Watching("nodes") > 0 })
	var n corev1.Node
	w.api.Change("nodes", "", "", "n", &n, func() {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}}
	})
	recorded := func() (observed []*journaletv1.NodeObserved, registered int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, f := range w.facts {
			switch f := f.(type) {
			case *journaletv1.NodeObserved:
				observed = append(observed, f)
			case *journaletv1.NodeRegistered:
				registered++
			}
		}
		return observed, registered
	}
	w.until("recorded", func() bool { o, _ := recorded(); return len(o) > 0 && len(o[len(o)-1].GetTaints()) == 1 })
	if o, r := recorded(); len(o) != 2 || r != 1 {
		t.Errorf("recorded %v and %d registrations, want 2 and 1", o, r)
	}
}

func TestRegistrationSurvivesAnAPIServerThatIsAwayAndSlow(t *testing.T) {
	w := newWorld(t, Options{Register: true})
	var mu sync.Mutex
	failed := 0
	w.api.Faults = func(r fakeapi.APIRequest) *fakeapi.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Verb == "create" && failed < 3 {
			failed++
			return &fakeapi.Fault{Code: http.StatusInternalServerError}
		}
		if r.Verb == "patch" && failed == 3 {
			failed++
			return &fakeapi.Fault{LostAnswer: true}
		}
		return nil
	}
	w.run()
	w.untilReady(corev1.ConditionTrue)
}
