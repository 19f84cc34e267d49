package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// world is a node whose pods a test defines. In a bubble of synctest its time is the bubble's.
type world struct {
	*testing.T
	d    *Driver
	root string

	mu    sync.Mutex
	pods  map[string]*corev1.Pod // by digest
	reads int                    // of manifests
	calls map[string]int         // of the runtime, by type of request
	stats []*cri.ContainerStats
	// containers are the runtime's, with its information on their mounts by id.
	containers []*cri.Container
	infos      map[string]string
	down       bool // the runtime does not answer
	refuse     bool // the sink fails
	reported   []string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, root: t.TempDir(), pods: map[string]*corev1.Pod{}, calls: map[string]int{}}
	w.d = New(Options{
		Conn: w, Manifest: w.manifest, Sink: w.sink,
		PodDir:    func(uid string) string { return filepath.Join(w.root, "pods", uid) },
		Path:      func(p *corev1.Pod, volume string) (string, error) { return w.path(string(p.UID), volume), nil },
		PodLogDir: func(namespace, name, uid string) string { return filepath.Join(w.root, "logs", uid) },
	})
	return w
}

func (w *world) path(uid, volume string) string {
	return filepath.Join(w.root, "pods", uid, "volumes", volume)
}

func (w *world) manifest(_ context.Context, digest string) (*corev1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if p := w.pods[digest]; p != nil {
		return p, nil
	}
	return nil, errors.New("no such manifest")
}

func (w *world) sink(_ context.Context, e *journaletv1.StorageExceeded) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse {
		return errors.New("the journal is closed")
	}
	w.reported = append(w.reported, e.GetUid()+": "+e.GetMessage())
	return nil
}

// Invoke implements the connection to the runtime.
func (w *world) Invoke(_ context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[strings.TrimPrefix(fmt.Sprintf("%T", args), "*v1.")]++
	if w.down {
		return errors.New("the runtime is down")
	}
	switch out := reply.(type) {
	case *cri.ImageFsInfoResponse:
		out.ImageFilesystems = []*cri.FilesystemUsage{{FsId: &cri.FilesystemIdentifier{Mountpoint: w.root}}}
	case *cri.ListContainerStatsResponse:
		out.Stats = w.stats
	case *cri.ListContainersResponse:
		out.Containers = w.containers
	case *cri.ContainerStatusResponse:
		if id := args.(*cri.ContainerStatusRequest).GetContainerId(); w.infos[id] != "" {
			out.Info = map[string]string{"info": w.infos[id]}
		}
	}
	return nil
}

func (w *world) NewStream(
	context.Context, *grpc.StreamDesc, string, ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

// runs lets a pod begin to run.
func (w *world) runs(uid string, spec corev1.PodSpec) {
	w.mu.Lock()
	w.pods["sha256:"+uid] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: spec}
	w.mu.Unlock()
	w.stored(uid, &journaletv1.CallRequested{PodUid: uid, Work: &journaletv1.CallRequested_RunSandbox{
		RunSandbox: &journaletv1.RunSandbox{Digest: "sha256:" + uid},
	}})
}

func (w *world) stored(uid string, decision any) {
	var e *journaletv1.Event
	switch k := decision.(type) {
	case *journaletv1.CallRequested:
		e = messages.NewEvent(k)
	case *journaletv1.PodTerminated:
		e = messages.NewEvent(k)
	}
	w.d.Stored(&journaletv1.Record{Actor: messages.Pod(uid).Proto(), Body: &journaletv1.Record_Step{
		Step: &journaletv1.Step{Decisions: []*journaletv1.Event{e}},
	}})
}

func (w *world) write(path string, bytes int) {
	w.Helper()
	must.OK(w, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, make([]byte, bytes), 0o600)))
}

// after lets this time pass and wants these reports since the last call.
func (w *world) after(d time.Duration, want ...string) {
	w.Helper()
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmt.Sprint(w.reported) != fmt.Sprint(want) {
		w.Errorf("reported %q, want %q", w.reported, want)
	}
	w.reported = nil
}

// inBubble runs a driver in a bubble.
func inBubble(t *testing.T, f func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.d.Run(ctx) }()
		f(w)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error("the driver ended with", err)
		}
	})
}

func limited() corev1.PodSpec {
	return corev1.PodSpec{Volumes: []corev1.Volume{emptyDir("data", quantity("1Mi"), "")}}
}

const exceeded = `u: Usage of EmptyDir volume "data" exceeds the limit "1Mi". `

func TestVolumeBeyondItsLimitIsReportedOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		w.runs("u", limited())
		w.after(Period + time.Second) // the volume does not exist yet
		w.write(filepath.Join(w.path("u", "data"), "a/b/f"), mi-100<<10)
		w.after(Period)
		w.write(filepath.Join(w.path("u", "data"), "g"), mi)
		w.mu.Lock()
		w.refuse = true
		w.mu.Unlock()
		w.after(Period)
		w.mu.Lock()
		w.refuse = false
		w.mu.Unlock()
		w.after(Period, exceeded)
		w.after(10 * Period)
		if w.calls["ListContainerStatsRequest"] != 0 {
			t.Errorf("the runtime is asked for a pod whose containers have no limits: %v", w.calls)
		}
		// Its next incarnation.
		w.stored("u", &journaletv1.PodTerminated{Uid: "u"})
		w.runs("u", limited())
		w.after(Period+time.Second, exceeded)
	})
}

func TestWithoutIsolationOfStorageNoLimitCounts(t *testing.T) {
	inBubble(t, func(w *world) {
		w.d.opts.NoLimits = true
		w.write(filepath.Join(w.path("u", "data"), "f"), 2*mi)
		w.runs("u", limited())
		w.after(10 * Period)
		if w.reads != 0 {
			t.Errorf("%d manifests read, want none", w.reads)
		}
	})
}

func TestPodThatTerminatesIsNotMeasured(t *testing.T) {
	inBubble(t, func(w *world) {
		w.runs("u", limited())
		w.runs("none", corev1.PodSpec{Volumes: []corev1.Volume{emptyDir("data", nil, "")}})
		w.write(filepath.Join(w.path("u", "data"), "f"), 2*mi)
		w.after(Period - time.Second)
		w.stored("u", &journaletv1.PodTerminated{Uid: "u"})
		w.after(10 * Period)
		if w.reads != 2 {
			t.Errorf("%d manifests read, want each once", w.reads)
		}
	})
}

func TestLayersAndLogsOfContainersCount(t *testing.T) {
	layer := func(attempt uint32, bytes uint64) *cri.ContainerStats {
		return &cri.ContainerStats{
			Attributes:    &cri.ContainerAttributes{Metadata: &cri.ContainerMetadata{Name: "main", Attempt: attempt}},
			WritableLayer: &cri.FilesystemUsage{UsedBytes: &cri.UInt64Value{Value: bytes}},
		}
	}
	inBubble(t, func(w *world) {
		w.stats = []*cri.ContainerStats{layer(1, mi/2), layer(0, 9*mi)} // the instance before does not count
		w.runs("u", corev1.PodSpec{Containers: []corev1.Container{container("main", "1Mi"), container("other", "9Mi")}})
		w.write(filepath.Join(w.root, "pods/u/etc-hosts"), 200)
		w.write(filepath.Join(w.root, "logs/u/main/0.log"), mi/4)
		w.after(Period + time.Second)
		w.write(filepath.Join(w.root, "logs/u/main/1.log"), mi)
		w.mu.Lock()
		w.down = true // logs count without layers
		w.mu.Unlock()
		w.after(Period, `u: Container main exceeded its local ephemeral storage limit "1Mi". `)
		if w.calls["ImageFsInfoRequest"] != 1 {
			t.Errorf("calls %v, want one for the images", w.calls)
		}
	})
}

func TestPodOfAnEarlierRunIsMeasuredUntilItsReportIsHandled(t *testing.T) {
	inBubble(t, func(w *world) {
		for _, uid := range []string{"u", "v"} {
			w.mu.Lock()
			w.pods[uid] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: limited()}
			w.mu.Unlock()
			w.write(filepath.Join(w.path(uid, "data"), "f"), 2*mi)
			w.d.Seed(uid, uid)
		}
		w.d.SeedPending(&journaletv1.Record{Body: &journaletv1.Record_Fact{
			Fact: messages.NewEvent(&journaletv1.StorageExceeded{Uid: "v"}),
		}})
		w.after(Period+time.Second, exceeded)
	})
}

// Walks together take a small part of one core, whatever the trees are.
func TestWalksAreSlowedDownToTheirShare(t *testing.T) {
	inBubble(t, func(w *world) {
		must.OK(t, w.d.pace(w.Context(), burst)) // a burst is free
		began := time.Now()
		for range 100 {
			must.OK(t, w.d.pace(w.Context(), 10*time.Millisecond))
		}
		if took := time.Since(began); took.Truncate(time.Second) != 33*time.Second {
			t.Errorf("a second of walks took %s", took)
		}
	})
}

func TestVolumesOfCSIDriversAreMeasuredByThese(t *testing.T) {
	w := newWorld(t)
	v := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	if _, err := w.d.Volume(t.Context(), p, &v); !errors.Is(err, ErrNotMeasured) {
		t.Errorf("without drivers: %v", err)
	}
	w.d.opts.CSI = func(_ context.Context, uid, volume string) (Measured, error) {
		return Measured{Bytes: 7}, errors.New(uid + "/" + volume)
	}
	if m, err := w.d.Volume(t.Context(), p, &v); m.Bytes != 7 || err == nil || err.Error() != "u/data" {
		t.Errorf("measured %+v, %v", m, err)
	}
}
