package devices

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/must"
)

const thing = "example.com/thing"

// limit bounds the wait for what a test expects.
const limit = time.Minute

// fake is a device plugin.
type fake struct {
	pluginapi.UnimplementedDevicePluginServer
	server *grpc.Server
	// lists are sent, one after the other; closing it ends the stream.
	lists    chan []*pluginapi.Device
	options  pluginapi.DevicePluginOptions
	allocate func(context.Context, []string) (*pluginapi.AllocateResponse, error)
	prefer   func(context.Context) []string
	started  chan []string
}

func (f *fake) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{
		PreStartRequired:                f.options.PreStartRequired,
		GetPreferredAllocationAvailable: f.options.GetPreferredAllocationAvailable,
	}, nil
}

func (f *fake) ListAndWatch(_ *pluginapi.Empty, s grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	for {
		select {
		case <-s.Context().Done():
			return s.Context().Err()
		case list, open := <-f.lists:
			if !open {
				return status.Error(codes.Aborted, "crashed")
			}
			if err := s.Send(&pluginapi.ListAndWatchResponse{Devices: list}); err != nil {
				return err
			}
		}
	}
}

func (f *fake) Allocate(ctx context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	return f.allocate(ctx, r.GetContainerRequests()[0].GetDevicesIds())
}

func (f *fake) GetPreferredAllocation(
	ctx context.Context, _ *pluginapi.PreferredAllocationRequest,
) (*pluginapi.PreferredAllocationResponse, error) {
	return &pluginapi.PreferredAllocationResponse{
		ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: f.prefer(ctx)}},
	}, nil
}

func (f *fake) PreStartContainer(
	_ context.Context, r *pluginapi.PreStartContainerRequest,
) (*pluginapi.PreStartContainerResponse, error) {
	f.started <- r.GetDevicesIds()
	return &pluginapi.PreStartContainerResponse{}, nil
}

// serve serves a plugin at a socket until the end of the test.
func (f *fake) serve(t *testing.T, path string) *fake {
	t.Helper()
	l, err := plugins.Listen(path, 8)
	must.OK(t, err)
	f.server = grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(f.server, f)
	go func() { _ = f.server.Serve(l) }()
	t.Cleanup(f.server.Stop)
	return f
}

func newFake() *fake {
	return &fake{lists: make(chan []*pluginapi.Device, 8), started: make(chan []string, 8)}
}

// world is a driver with what it records.
type world struct {
	*Driver
	dir   string
	facts chan *journaletv1.Event
	// pause lets the next pause between two facts end.
	pause chan time.Time
}

func newWorld(t *testing.T, timeouts Timeouts) *world {
	t.Helper()
	w := &world{
		dir:   filepath.Join(t.TempDir(), strings.Repeat("long/", 30), Dir),
		facts: make(chan *journaletv1.Event, 64), pause: make(chan time.Time, 64),
	}
	record := func(e *journaletv1.Event) { w.facts <- e }
	w.Driver = New(Options{
		Dir: w.dir, Outcome: record, Timeouts: timeouts,
		Sink:  func(_ context.Context, e *journaletv1.Event) error { record(e); return nil },
		After: func(time.Duration) <-chan time.Time { return w.pause },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return w
}

// register registers a plugin as plugins do, once the driver serves.
func (w *world) register(t *testing.T, resource, endpoint string) error {
	t.Helper()
	conn, err := plugins.NewConn(filepath.Join(w.dir, SocketFile), 1<<20)
	must.OK(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: endpoint, ResourceName: resource,
	}, grpc.WaitForReady(true))
	return err
}

// next returns the next fact.
func (w *world) next(t *testing.T) *journaletv1.DevicesObserved {
	t.Helper()
	select {
	case e := <-w.facts:
		return e.GetDevicesObserved()
	case <-time.After(limit):
		t.Fatal("nothing is recorded")
		return nil
	}
}

// come has a plugin register and list devices a and b.
func (w *world) come(t *testing.T, f *fake) {
	t.Helper()
	w.waitServing(t)
	f.serve(t, filepath.Join(w.dir, "p.sock"))
	f.lists <- devicesOf("a", "b")
	must.OK(t, w.register(t, thing, "p.sock"))
	if o := w.next(t); !o.GetConnected() || !o.GetAll() || len(o.GetChanged()) != 2 {
		t.Fatalf("recorded %v, want both devices", o)
	}
}

// waitServing waits until the driver has removed old sockets and serves its own.
func (w *world) waitServing(t *testing.T) {
	t.Helper()
	if err := w.register(t, "none", "none"); status.Code(err) != codes.FailedPrecondition {
		t.Fatalf("a resource that is none was answered with %v", err)
	}
}

func devicesOf(ids ...string) []*pluginapi.Device {
	var all []*pluginapi.Device
	for _, id := range ids {
		all = append(all, &pluginapi.Device{ID: id, Health: pluginapi.Healthy})
	}
	return all
}

func TestAPluginComesChangesAndGoes(t *testing.T) {
	w, f := newWorld(t, Timeouts{}), newFake()
	f.options.PreStartRequired = true
	w.come(t, f)
	f.lists <- []*pluginapi.Device{{ID: "a", Health: pluginapi.Unhealthy}, {ID: "c", Health: pluginapi.Healthy}}
	w.pause <- time.Now()
	o := w.next(t)
	if o.GetAll() || !o.GetConnected() || !o.GetPreStart() || fmt.Sprint(o.GetRemoved()) != "[b]" ||
		len(o.GetChanged()) != 2 || o.GetChanged()[0].GetHealthy() || !o.GetChanged()[1].GetHealthy() {
		t.Errorf("recorded %v, want a unhealthy, b removed, c new", o)
	}
	close(f.lists)
	w.pause <- time.Now()
	if o := w.next(t); o.GetConnected() || !strings.Contains(o.GetMessage(), "crashed") {
		t.Errorf("recorded %v, want that the plugin has gone", o)
	}
}

func TestAnEqualListIsNotRecorded(t *testing.T) {
	w, f := newWorld(t, Timeouts{}), newFake()
	w.come(t, f)
	f.lists <- devicesOf("b", "a")
	w.pause <- time.Now()
	f.lists <- devicesOf("a")
	w.pause <- time.Now()
	w.pause <- time.Now()
	if o := w.next(t); fmt.Sprint(o.GetRemoved()) != "[b]" || len(o.GetChanged()) != 0 {
		t.Errorf("recorded %v, want only that b is gone", o)
	}
}

func TestOfQuickChangesTheNewestIsRecorded(t *testing.T) {
	w, f := newWorld(t, Timeouts{}), newFake()
	w.come(t, f)
	newest := func() int {
		p := w.plugin(thing)
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.newest)
	}
	for _, ids := range [][]string{{"a"}, {"a", "b", "c"}} {
		f.lists <- devicesOf(ids...)
		must.Eventually(t, limit, fmt.Sprintf("the list of %v has not arrived", ids), func() (string, bool) {
			n := newest()
			return fmt.Sprintf("the newest has %d devices", n), n == len(ids)
		})
	}
	w.pause <- time.Now()
	if o := w.next(t); len(o.GetRemoved()) != 0 || len(o.GetChanged()) != 1 || o.GetChanged()[0].GetId() != "c" {
		t.Errorf("recorded %v, want only that c is new", o)
	}
}

func TestAPluginThatRegistersAgainTakesThePlaceOfTheOld(t *testing.T) {
	w, f := newWorld(t, Timeouts{}), newFake()
	w.come(t, f)
	second := newFake().serve(t, filepath.Join(w.dir, "q.sock"))
	second.allocate = func(context.Context, []string) (*pluginapi.AllocateResponse, error) {
		return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{
			{Envs: map[string]string{"FROM": "second"}},
		}}, nil
	}
	must.OK(t, w.register(t, thing, "q.sock"))
	second.lists <- devicesOf("z")
	w.pause <- time.Now()
	if o := w.next(t); !o.GetConnected() || !o.GetAll() || len(o.GetChanged()) != 1 || o.GetChanged()[0].GetId() != "z" {
		t.Errorf("recorded %v, want the devices of the second plugin alone, and not that one has gone", o)
	}
	answer, _, err := w.Allocate(t.Context(), &journaletv1.AllocateDevices{Resource: thing, Ids: []string{"z"}})
	must.OK(t, err)
	if answer.GetEnvs()[0].GetValue() != "second" {
		t.Errorf("answered %v, want the second plugin's answer", answer)
	}
}

// A plugin that never lists a device has its resource shown without any, as with the kubelet.
func TestPluginThatFailsAtOnceHasItsResourceRecorded(t *testing.T) {
	w, f := newWorld(t, Timeouts{}), newFake()
	w.waitServing(t)
	f.serve(t, filepath.Join(w.dir, "p.sock"))
	close(f.lists)
	must.OK(t, w.register(t, thing, "p.sock"))
	if o := w.next(t); o.GetResource() != thing || o.GetConnected() || !strings.Contains(o.GetMessage(), "crashed") {
		t.Errorf("recorded %v, want that the plugin has gone, and why", o)
	}
}

func TestHostileListsEndTheirPlugin(t *testing.T) {
	for name, list := range map[string][]*pluginapi.Device{
		"too many":     make([]*pluginapi.Device, maxDevices+1),
		"the same id":  devicesOf("a", "a"),
		"no id":        devicesOf(""),
		"a long id":    devicesOf(strings.Repeat("x", maxIDBytes+1)),
		"many a node":  {{ID: "a", Topology: &pluginapi.TopologyInfo{Nodes: make([]*pluginapi.NUMANode, maxNUMANodes+1)}}},
		"beyond bytes": devicesOf(strings.Repeat("x", maxListBytes+1)),
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newWorld(t, Timeouts{}), newFake()
			w.come(t, f)
			for i, d := range list {
				if d == nil {
					list[i] = &pluginapi.Device{ID: fmt.Sprint(i)}
				}
			}
			f.lists <- list
			w.pause <- time.Now()
			if o := w.next(t); o.GetConnected() || o.GetMessage() == "" {
				t.Errorf("recorded %v, want that the plugin has gone, and why", o)
			}
			if w.plugin(thing) != nil {
				t.Error("the plugin is still used")
			}
		})
	}
}

func TestManyDevicesAreSeveralFacts(t *testing.T) {
	w, f := newWorld(t, Timeouts{}), newFake()
	w.waitServing(t)
	f.serve(t, filepath.Join(w.dir, "p.sock"))
	var ids []string
	for i := range maxDevices {
		ids = append(ids, fmt.Sprintf("%0*d", maxIDBytes, i))
	}
	f.lists <- devicesOf(ids...)
	must.OK(t, w.register(t, thing, "p.sock"))
	n := 0
	for more := true; more; {
		o := w.next(t)
		if o.GetAll() != (n == 0) || o.GetConnected() == o.GetMore() {
			t.Fatalf("after %d devices recorded all=%t more=%t connected=%t", n, o.GetAll(), o.GetMore(), o.GetConnected())
		}
		n, more = n+len(o.GetChanged()), o.GetMore()
	}
	if n != maxDevices {
		t.Errorf("recorded %d devices, want %d", n, maxDevices)
	}
}

func TestAllocateGivesUpAPluginThatHangs(t *testing.T) {
	w, f := newWorld(t, Timeouts{Allocate: 50 * time.Millisecond}), newFake()
	f.allocate = func(context.Context, []string) (*pluginapi.AllocateResponse, error) {
		<-t.Context().Done() // not at the deadline of the call: the answer might still come in time
		return nil, t.Context().Err()
	}
	w.come(t, f)
	_, again, err := w.Allocate(t.Context(), &journaletv1.AllocateDevices{Resource: thing, Ids: []string{"a"}})
	if err == nil || !again || !strings.Contains(err.Error(), "did not answer within 50ms") {
		t.Errorf("answered %v, again %t, want that the plugin did not answer", err, again)
	}
}

func TestAnswersOfAllocate(t *testing.T) {
	answer := func(r *pluginapi.ContainerAllocateResponse) *pluginapi.AllocateResponse {
		return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{r}}
	}
	type r = pluginapi.ContainerAllocateResponse
	for name, c := range map[string]struct {
		response *pluginapi.AllocateResponse
		err      error
		again    bool
		want     string // in the error; "": none
	}{
		"good": {response: answer(&r{
			Envs: map[string]string{"B": "2", "A": "1"}, Mounts: []*pluginapi.Mount{{ContainerPath: "/a", HostPath: "/b"}},
			Devices:    []*pluginapi.DeviceSpec{{ContainerPath: "/dev/a", HostPath: "/dev/null", Permissions: "rw"}},
			CdiDevices: []*pluginapi.CDIDevice{{Name: "vendor.com/class=a"}},
		})},
		"none":           {response: &pluginapi.AllocateResponse{}, want: "for 0 containers"},
		"refused":        {err: status.Error(codes.Internal, "broken\xff"), want: "broken"},
		"gone meanwhile": {err: status.Error(codes.Unavailable, "stopping"), again: true, want: "stopping"},
		"too long": {
			response: answer(&r{Envs: map[string]string{"A": strings.Repeat("x", maxAnswerBytes)}}), want: "at most",
		},
		"no name": {response: answer(&r{Envs: map[string]string{"A=B": ""}}), want: "environment variable"},
		"a relative path": {
			response: answer(&r{Mounts: []*pluginapi.Mount{{ContainerPath: "a", HostPath: "/b"}}}), want: "not absolute",
		},
		"a path upwards": {
			response: answer(&r{Mounts: []*pluginapi.Mount{{ContainerPath: "/a", HostPath: "/b/../c"}}}), want: "..",
		},
		"no permissions": {response: answer(&r{Devices: []*pluginapi.DeviceSpec{
			{ContainerPath: "/a", HostPath: "/b", Permissions: "rx"},
		}}), want: "permissions"},
		"no CDI name": {response: answer(&r{CdiDevices: []*pluginapi.CDIDevice{{Name: "x"}}}), want: "CDI"},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newWorld(t, Timeouts{}), newFake()
			f.allocate = func(context.Context, []string) (*pluginapi.AllocateResponse, error) { return c.response, c.err }
			w.come(t, f)
			got, again, err := w.Allocate(t.Context(), &journaletv1.AllocateDevices{Resource: thing, Ids: []string{"a"}})
			switch {
			case c.want == "" && (err != nil || got.GetEnvs()[0].GetName() != "A" || len(got.GetCdiDevices()) != 1):
				t.Errorf("answered %v, %v", got, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || again != c.again):
				t.Errorf("answered %v, again %t, want an error with %q, again %t", err, again, c.want, c.again)
			}
		})
	}
}

func TestThePreferenceIsAlwaysAnswered(t *testing.T) {
	w, f := newWorld(t, Timeouts{Preferred: limit}), newFake()
	f.prefer = func(context.Context) []string { return []string{"b"} }
	w.come(t, f)
	impatient, silent := newWorld(t, Timeouts{Preferred: 50 * time.Millisecond}), newFake()
	silent.prefer = func(context.Context) []string {
		<-t.Context().Done() // not at the deadline of the call: the answer might still come in time
		return []string{"b"}
	}
	impatient.come(t, silent)
	request := func(w *world, id uint64, resource string) *journaletv1.PreferredDevicesRead {
		w.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
			Decisions: []*journaletv1.Event{messages.NewEvent(&journaletv1.PreferredDevicesRequested{
				RequestId: id, Uid: "u", Resource: resource, Available: []string{"a", "b"}, Count: 1,
			})},
		}}})
		return (<-w.facts).GetPreferredDevicesRead()
	}
	if r := request(w, 1, thing); r.GetRequestId() != 1 || r.GetUid() != "u" || fmt.Sprint(r.GetIds()) != "[b]" {
		t.Errorf("answered %v, want b", r)
	}
	r := request(impatient, 2, thing)
	if r.GetRequestId() != 2 || len(r.GetIds()) != 0 || !strings.Contains(r.GetMessage(), "did not answer") {
		t.Errorf("a plugin that hangs is answered with %v", r)
	}
	if r := request(w, 3, "example.com/other"); r.GetRequestId() != 3 || r.GetMessage() == "" {
		t.Errorf("a plugin that is not there is answered with %v", r)
	}
}

// late is a context whose timer fires after its deadline, as timers do.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

func TestPluginsThatEndACallAtItsDeadlineDidNotAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, unanswered("Allocate", time.Second))
	defer cancel()
	reset := status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL")
	if err := explain(late{ctx}, "Allocate", reset); !strings.Contains(err.Error(), "did not answer") {
		t.Errorf("explained with %v", err)
	}
}

func TestPreStartNamesTheDevices(t *testing.T) {
	w, f := newWorld(t, Timeouts{}), newFake()
	w.come(t, f)
	must.OK(t, w.PreStart(t.Context(), thing, []string{"b"}))
	if ids := <-f.started; fmt.Sprint(ids) != "[b]" {
		t.Errorf("prepared %v, want b", ids)
	}
	if err := w.PreStart(t.Context(), "example.com/other", nil); err == nil {
		t.Error("a plugin that is not there has prepared a device")
	}
}

func TestRegistrationsAreChecked(t *testing.T) {
	w := newWorld(t, Timeouts{Dial: 50 * time.Millisecond})
	w.waitServing(t)
	for _, c := range []struct{ resource, endpoint string }{
		{"cpu", "p.sock"}, {"kubernetes.io/thing", "p.sock"}, {"example.com/a=b", "p.sock"},
		{"example.com/" + strings.Repeat("x", 64), "p.sock"},
		{thing, "../p.sock"}, {thing, ""}, {thing, SocketFile}, {thing, "absent.sock"},
	} {
		if err := w.register(t, c.resource, c.endpoint); err == nil {
			t.Errorf("resource %.32q at %q is taken", c.resource, c.endpoint)
		}
	}
}

func TestRegistrationsAreLimited(t *testing.T) {
	w := newWorld(t, Timeouts{Dial: time.Millisecond})
	w.waitServing(t)
	refused := 0
	for range 2 * maxPlugins {
		if err := w.register(t, thing, "absent.sock"); strings.Contains(err.Error(), "too often") {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no registration was refused for being one too many")
	}
}

// TestAPluginThatOnlyListensIsGivenUp has a socket behind which nobody speaks gRPC.
func TestAPluginThatOnlyListensIsGivenUp(t *testing.T) {
	w := newWorld(t, Timeouts{Dial: 50 * time.Millisecond})
	w.waitServing(t)
	l, err := plugins.Listen(filepath.Join(w.dir, "p.sock"), 8)
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	var held []net.Conn
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, c)
		}
	}()
	if err := w.register(t, thing, "p.sock"); err == nil {
		t.Error("a plugin that is silent is taken")
	}
}
