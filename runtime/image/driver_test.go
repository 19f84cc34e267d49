package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/must"
)

// rig is a driver before a simulated runtime.
type rig struct {
	t       *testing.T
	runtime *sim.Runtime
	images  runtimeapi.ImageServiceClient
	driver  *Driver
	facts   chan *journaletv1.Event
	uses    []cri.ImageUse
}

func newRig(t *testing.T, o sim.Options, change func(*Options)) *rig {
	t.Helper()
	o.AnyImage = true
	r := &rig{t: t, runtime: sim.New(o), facts: make(chan *journaletv1.Event, 100)}
	t.Cleanup(r.runtime.Close)
	conn, err := r.runtime.Dial()
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r.images = runtimeapi.NewImageServiceClient(conn)
	r.driver = New(r.options(conn, change))
	return r
}

func (r *rig) options(conn grpc.ClientConnInterface, change func(*Options)) Options {
	o := Options{
		Conn: conn, Period: time.Hour, Pause: time.Millisecond,
		Uses: func(context.Context) ([]cri.ImageUse, error) { return r.uses, nil },
		Sink: func(_ context.Context, e *journaletv1.Event) error {
			r.facts <- e
			r.driver.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: e}})
			return nil
		},
	}
	if change != nil {
		change(&o)
	}
	return o
}

// observed inspects the runtime and returns what was reported, "" for nothing.
func (r *rig) observed() string {
	r.t.Helper()
	must.OK(r.t, r.driver.Observe(r.t.Context()))
	select {
	case e := <-r.facts:
		return text(e)
	default:
		return ""
	}
}

// text returns an observation in short: "complete +app:1 used -id".
func text(e *journaletv1.Event) string {
	o := e.GetImagesObserved()
	var out []string
	if o.GetComplete() {
		out = append(out, "complete")
	}
	for _, i := range o.GetPresent() {
		name, _ := strings.CutPrefix(i.GetNames()[0], "docker.io/library/")
		for _, n := range i.GetNames() {
			if !strings.Contains(n, "@") {
				name, _ = strings.CutPrefix(n, "docker.io/library/")
			}
		}
		s := fmt.Sprintf("+%s %d", name, i.GetBytes())
		if i.GetUsed() {
			s += " used"
		}
		if i.GetPinned() {
			s += " pinned"
		}
		out = append(out, s)
	}
	for range o.GetRemoved() {
		out = append(out, "-1")
	}
	return strings.Join(out, " ")
}

func (r *rig) pull(name string) string {
	r.t.Helper()
	resp, err := r.images.PullImage(r.t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	must.OK(r.t, err)
	return resp.GetImageRef()
}

func (r *rig) want(got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Fatalf("reported %q, want %q", got, want)
	}
}

func TestOnlyWhatHasChangedIsReported(t *testing.T) {
	r := newRig(t, sim.Options{Pinned: []string{"pause:3"}, ImageSize: func(string) uint64 { return 7 }}, nil)
	r.want(r.observed(), "complete +pause:3 7 pinned")
	r.want(r.observed(), "")
	id := r.pull("app:1")
	r.want(r.observed(), "+app:1 7")
	r.uses = []cri.ImageUse{{Image: id, Container: "main"}}
	r.want(r.observed(), "+app:1 7 used")
	r.want(r.observed(), "")
	// A name counts as well as the id.
	r.uses = []cri.ImageUse{{Image: "docker.io/library/app:1", Container: "main", Volume: true}}
	r.want(r.observed(), "")
	// The runtime needs it for sandboxes, and does not pin it.
	r.uses = []cri.ImageUse{{Image: "docker.io/library/app:1", Sandboxes: true}}
	r.want(r.observed(), "+app:1 7 pinned")
	r.uses = nil
	r.want(r.observed(), "+app:1 7")
	_, err := r.images.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	must.OK(t, err)
	r.want(r.observed(), "-1")
}

func TestANewRunReportsOnlyWhatTheJournalDoesNotHave(t *testing.T) {
	r := newRig(t, sim.Options{Images: []string{"app:1"}}, nil)
	list, err := r.driver.List(t.Context())
	must.OK(t, err)
	r.driver.Seed(&journaletv1.ImageState{Images: map[string]*journaletv1.ImageRecord{
		list[0].GetId(): {Observed: list[0].ImageObservation},
	}})
	r.want(r.observed(), "")
	r.pull("app:2")
	got := r.observed()
	if !strings.HasPrefix(got, "complete ") || !strings.Contains(got, "+app:1 ") || !strings.Contains(got, "+app:2 ") {
		t.Fatalf("reported %q", got)
	}
}

// removed has the driver see that a removal of an image was requested, and how it ended.
func (r *rig) removed(id string, f *journaletv1.CallFinished) {
	requested := messages.NewEvent(messages.NewCall(&journaletv1.RemoveImage{ImageId: id}))
	r.driver.Stored(&journaletv1.Record{Epoch: 1, Actor: messages.Image.Proto(), Body: &journaletv1.Record_Step{
		Step: &journaletv1.Step{Cause: 7, Decisions: []*journaletv1.Event{requested}},
	}})
	f.IntentId = messages.DecisionID(1, 7, messages.Image, 0)
	r.driver.Stored(&journaletv1.Record{Actor: messages.Image.Proto(), Body: &journaletv1.Record_Fact{
		Fact: messages.NewEvent(f),
	}})
}

// The image actor forgets an image that it has removed. One that was pulled again before an inspection is news.
func TestAnImageThatIsBackIsReported(t *testing.T) {
	r := newRig(t, sim.Options{ImageSize: func(string) uint64 { return 7 }}, nil)
	id := r.pull("app:1")
	r.want(r.observed(), "complete +app:1 7")
	r.removed(id, &journaletv1.CallFinished{ImageInUse: true})
	r.want(r.observed(), "")
	r.removed(id, &journaletv1.CallFinished{})
	r.want(r.observed(), "+app:1 7")
	// It is removed between the list of an inspection and its record: the image actor has it by the record.
	sink := r.driver.opts.Sink
	r.driver.opts.Sink = func(ctx context.Context, e *journaletv1.Event) error {
		r.removed(id, &journaletv1.CallFinished{})
		return sink(ctx, e)
	}
	r.uses = []cri.ImageUse{{Image: id, Container: "main"}}
	r.want(r.observed(), "+app:1 7 used")
	r.driver.opts.Sink = sink
	r.want(r.observed(), "")
	_, err := r.images.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	must.OK(t, err)
	r.want(r.observed(), "-1")
}

func TestARejectedFactIsReportedAgain(t *testing.T) {
	rejected := errors.New("the journal is full")
	r := newRig(t, sim.Options{Images: []string{"app:1"}}, nil)
	sink := r.driver.opts.Sink
	r.driver.opts.Sink = func(context.Context, *journaletv1.Event) error { return rejected }
	if err := r.driver.Observe(t.Context()); !errors.Is(err, rejected) {
		t.Fatal(err)
	}
	r.driver.opts.Sink = sink
	r.want(r.observed(), "complete +app:1 4194304")
}

func TestAHangingRuntimeIsGivenUp(t *testing.T) {
	r := newRig(t, sim.Options{Images: []string{"app:1"}}, func(o *Options) { o.Timeout = 20 * time.Millisecond })
	remove := r.runtime.Inject(sim.Fault{Method: "ListImages", Hang: true})
	if err := r.driver.Observe(t.Context()); err == nil {
		t.Fatal("no error")
	}
	remove()
	r.driver.opts.Timeout = time.Minute
	r.want(r.observed(), "complete +app:1 4194304")
}

// hostile returns more images and names than are kept.
type hostile struct{ runtimeapi.ImageServiceClient }

func (hostile) ListImages(
	context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption,
) (*runtimeapi.ListImagesResponse, error) {
	resp := &runtimeapi.ListImagesResponse{}
	for i := range 3 * maxImages {
		img := &runtimeapi.Image{Id: fmt.Sprintf("%06d", i), Size: 1 << 63}
		for j := range 2 * maxNames {
			img.RepoTags = append(img.RepoTags, fmt.Sprintf("app:%d", j), strings.Repeat("x", maxNameBytes+1+j))
		}
		resp.Images = append(resp.Images, img)
	}
	resp.Images = append(resp.Images, &runtimeapi.Image{Id: strings.Repeat("y", maxNameBytes+1)}, &runtimeapi.Image{})
	return resp, nil
}

func TestWhatARuntimeReturnsIsBounded(t *testing.T) {
	r := newRig(t, sim.Options{}, nil)
	r.driver.images = hostile{}
	all, err := r.driver.List(t.Context())
	must.OK(t, err)
	if len(all) != maxImages {
		t.Fatalf("%d images", len(all))
	}
	for _, i := range all {
		if len(i.GetNames()) != maxNames || i.GetBytes() != maxBytes {
			t.Fatalf("%d names, %d bytes", len(i.GetNames()), i.GetBytes())
		}
	}
}

func TestAFullFileSystemIsReportedFromTheThresholdOn(t *testing.T) {
	available, paths := int64(16), make(chan string, 10)
	r := newRig(t, sim.Options{}, func(o *Options) {
		o.HighPercent = 85
		o.Statfs = func(path string) (int64, int64, error) {
			paths <- path
			return 100, available, nil
		}
	})
	for _, step := range []struct {
		available int64
		full      bool
	}{{16, false}, {15, true}, {15, true}, {0, true}, {101, false}} {
		available = step.available
		r.driver.measure(t.Context())
		if path := <-paths; path != "/var/lib/journalet-sim" {
			t.Fatalf("measured %s", path)
		}
		select {
		case e := <-r.facts:
			f := e.GetImageFilesystemFull()
			if !step.full || f.GetCapacityBytes() != 100 || f.GetAvailableBytes() != available {
				t.Errorf("with %d available: %v", available, e)
			}
		default:
			if step.full {
				t.Errorf("with %d available nothing is reported", available)
			}
		}
	}
}

func TestFailedMeasurementsAreCounted(t *testing.T) {
	capacity := int64(0)
	var got []string
	r := newRig(t, sim.Options{}, func(o *Options) {
		o.HighPercent = 85
		o.Statfs = func(string) (int64, int64, error) { return capacity, 0, nil }
		o.Unmeasured = func(err error, times int) { got = append(got, fmt.Sprint(errors.Is(err, ErrNoCapacity), times)) }
	})
	for _, c := range []int64{0, 0, 100, 0} {
		capacity = c
		r.driver.measure(t.Context())
	}
	if want := "true 1,true 2,true 1"; strings.Join(got, ",") != want {
		t.Errorf("reported %v, want %s", got, want)
	}
}

func TestAFileSystemThatHangsIsMeasuredOnce(t *testing.T) {
	release, calls := make(chan struct{}), make(chan struct{}, 10)
	r := newRig(t, sim.Options{}, func(o *Options) {
		o.Timeout = 20 * time.Millisecond
		o.Statfs = func(string) (int64, int64, error) {
			calls <- struct{}{}
			<-release
			return 100, 0, nil
		}
	})
	for range 3 {
		if _, err := r.driver.Filesystem(t.Context()); err == nil {
			t.Fatal("no error")
		}
	}
	<-calls // which may begin later
	close(release)
	if len(calls) != 0 {
		t.Errorf("measured %d times more", len(calls))
	}
}

func TestTheKernelMeasuresARealFileSystem(t *testing.T) {
	capacity, available, err := statfs(t.TempDir())
	if err != nil || capacity <= 0 || available < 0 || available > capacity {
		t.Errorf("%d, %d, %v", capacity, available, err)
	}
	if _, _, err := statfs("/no/such/directory"); err == nil {
		t.Error("no error")
	}
}

// While a pod waits for an image that it would take from the node, the driver looks for it.
func TestAnAwaitedImageIsObservedSoonAfterItIsLoaded(t *testing.T) {
	r := newRig(t, sim.Options{Images: []string{"app:1"}}, func(o *Options) { o.AwaitedPeriod = time.Millisecond })
	stored := func(decision *journaletv1.Event) {
		r.driver.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{
			Step: &journaletv1.Step{Decisions: []*journaletv1.Event{decision}}}})
	}
	awaits := func(want bool, decision *journaletv1.Event) {
		t.Helper()
		if stored(decision); r.driver.Awaits() != want {
			t.Errorf("awaits an image after %v: %v", decision, !want)
		}
	}
	awaits(false, messages.NewEvent(&journaletv1.ImagePullRequested{Uid: "always", Image: "app:2"}))
	requested := messages.NewEvent(&journaletv1.ImagePullRequested{Uid: "u", Image: "app:2", IfNotPresent: true})
	awaits(true, requested)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.driver.Run(ctx) }()
	r.want(text(<-r.facts), "complete +app:1 4194304")
	r.pull("app:2")
	r.want(text(<-r.facts), "+app:2 4194304")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	failed := journaletv1.CallError_CALL_ERROR_RUNTIME
	awaits(true, messages.NewEvent(&journaletv1.ImagePullDecided{Uid: "u", Image: "app:2", Error: failed}))
	awaits(false, messages.NewEvent(&journaletv1.ImagePullDecided{Uid: "u", Image: "app:2"}))
	awaits(true, requested)
	awaits(false, messages.NewEvent(&journaletv1.ImagePullWithdrawn{Uid: "u", Image: "app:2"}))
	awaits(true, requested)
	awaits(false, messages.NewEvent(&journaletv1.PodFinished{Uid: "u"}))
	r.driver.Seed(&journaletv1.ImageState{Waits: map[string]*journaletv1.ImageWait{
		"": {Uid: "u", Image: "app:2", Waiting: true, IfNotPresent: true}}})
	if !r.driver.Awaits() {
		t.Error("a wait of the last run is not known")
	}
}

func TestAPullLeadsToAnObservation(t *testing.T) {
	r := newRig(t, sim.Options{Images: []string{"app:1"}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.driver.Run(ctx) }()
	r.want(text(<-r.facts), "complete +app:1 4194304")
	r.pull("app:2")
	finished := &journaletv1.CallFinished{Requester: messages.Image.String()}
	r.driver.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(finished)}})
	r.want(text(<-r.facts), "+app:2 4194304")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
