package events

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func manifest(string) (*corev1.Pod, error) {
	return &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init", Image: "setup:1"}},
		Containers:     []corev1.Container{{Name: "main", Image: "app:1"}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug:1"}},
		},
	}}, nil
}

// journal appends records of one pod.
type journal struct{ records []*journaletv1.Record }

// read returns what reads the journal for a driver.
func (j *journal) read(
	t *testing.T,
) func(_ context.Context, from, to uint64, f func(*journaletv1.Record) error) error {
	return func(_ context.Context, from, to uint64, f func(*journaletv1.Record) error) error {
		for _, rec := range j.records[from-1 : to] {
			must.OK(t, f(rec))
		}
		return nil
	}
}

func (j *journal) add(author messages.Ref, isFact bool, kinds ...proto.Message) {
	rec := &journaletv1.Record{
		Seq: uint64(len(j.records) + 1), Epoch: 1, Actor: author.Proto(),
		Time: timestamppb.New(time.Date(2026, 3, 1, 12, 0, len(j.records), 0, time.UTC)),
	}
	if isFact {
		rec.Body = &journaletv1.Record_Fact{Fact: messages.NewEvent(kinds[0])}
	} else {
		s := &journaletv1.Step{Cause: rec.Seq}
		for _, k := range kinds {
			s.Decisions = append(s.Decisions, messages.NewEvent(k))
		}
		rec.Body = &journaletv1.Record_Step{Step: s}
	}
	j.records = append(j.records, rec)
}

func (j *journal) fact(m proto.Message)     { j.add(messages.Pod("u"), true, m) }
func (j *journal) step(ms ...proto.Message) { j.add(messages.Pod("u"), false, ms...) }

// call appends a call and its outcome.
func (j *journal) call(work proto.Message, failed journaletv1.CallError, message string) {
	c := messages.NewCall(work)
	c.PodUid = "u"
	id := messages.DecisionID(1, uint64(len(j.records)+1), messages.Pod("u"), 0)
	j.step(c)
	j.fact(&journaletv1.CallFinished{IntentId: id, Requester: "pod/u", Error: failed, Message: message})
}

func newJournal() *journal {
	j := &journal{}
	j.add(messages.Source("api"), false, &journaletv1.PodUpdated{
		Pod: &journaletv1.PodRef{Uid: "u", Namespace: "ns", Name: "web", Digest: "d"}})
	return j
}

// A block device has events of its own; of the other volumes only failures have any.
func TestVolumesHaveTheKubeletsEvents(t *testing.T) {
	getManifest := func(string) (*corev1.Pod, error) {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", VolumeDevices: []corev1.VolumeDevice{{Name: "raw"}, {Name: "bad"}},
		}}}}, nil
	}
	j := newJournal()
	setUp := func(csi bool, failed journaletv1.CallError, volumes ...*journaletv1.VolumeOutcome) {
		j.call(&journaletv1.SetUpVolumes{Csi: csi}, failed, "")
		j.records[len(j.records)-1].GetFact().GetCallFinished().Volumes = volumes
	}
	setUp(true, journaletv1.CallError_CALL_ERROR_VOLUME, &journaletv1.VolumeOutcome{Name: "raw"},
		&journaletv1.VolumeOutcome{Name: "bad", Message: `MapVolume.MapPodDevice failed for volume "bad" : no device`},
		&journaletv1.VolumeOutcome{Name: "files", Message: `MountVolume.SetUp failed for volume "files" : no driver`})
	setUp(true, ok, &journaletv1.VolumeOutcome{Name: "bad"}, &journaletv1.VolumeOutcome{Name: "files"})
	setUp(false, ok, &journaletv1.VolumeOutcome{Name: "conf"})
	j.step(&journaletv1.PodTerminating{Reason: "VolumeAttachmentLimitExceeded", Failed: true,
		Message: "Pod was rejected: Node has reached its volume attachment limit"})
	var got []string
	d := newDeriver(getManifest)
	for _, rec := range j.records {
		for _, e := range d.derive(rec) {
			got = append(got, e.kind+" "+e.reason+" "+e.message)
		}
	}
	want := `Normal SuccessfulMountVolume MapVolume.MapPodDevice succeeded for volume "raw"
Warning FailedMapVolume MapVolume.MapPodDevice failed for volume "bad" : no device
Warning FailedMount MountVolume.SetUp failed for volume "files" : no driver
Normal SuccessfulMountVolume MapVolume.MapPodDevice succeeded for volume "bad"
Warning VolumeAttachmentLimitExceeded Node has reached its volume attachment limit`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

const ok = journaletv1.CallError_CALL_ERROR_UNSPECIFIED

func TestEventsHaveTheKubeletsReasonsAndMessages(t *testing.T) {
	j := newJournal()
	j.add(messages.Node, false, &journaletv1.AdmissionDecided{Uid: "u", Reason: "OutOfcpu",
		Message: "Pod was rejected: Node didn't have enough resource: cpu"})
	j.call(&journaletv1.RunSandbox{}, journaletv1.CallError_CALL_ERROR_RUNTIME, "no network")
	j.step(&journaletv1.ImagePullRequested{Uid: "u", Image: "app:1"})
	j.add(messages.Image, false, &journaletv1.ImagePullDecided{Uid: "u", Image: "app:1", Bytes: 12,
		Duration: durationpb.New(1500 * time.Millisecond)})
	j.call(&journaletv1.StartContainer{Container: "main", PulledForStart: true}, ok, "")
	j.call(&journaletv1.StartContainer{Container: "init"}, ok, "")
	j.step(&journaletv1.ImagePullRequested{Uid: "u", Image: "debug:1"})
	j.add(messages.Image, false, &journaletv1.ImagePullDecided{Uid: "u", Image: "debug:1", AlreadyPresent: true})
	j.call(&journaletv1.StartContainer{Container: "debug", Ephemeral: true, PulledForStart: true}, ok, "")
	j.fact(&journaletv1.ProbeResult{Uid: "u", Container: "main", Message: "Readiness probe failed: no"})
	j.fact(&journaletv1.ProbeResult{Uid: "u", Container: "main", Success: true, Message: "Liveness probe warning: moved"})
	j.call(&journaletv1.RunHook{Container: "main", ContainerId: "c", Kind: journaletv1.HookKind_HOOK_KIND_PRE_STOP},
		journaletv1.CallError_CALL_ERROR_HOOK, "exit 1")
	j.call(&journaletv1.StopContainer{Container: "main", ContainerId: "c", Reason: "pod removed"}, ok, "")
	j.call(&journaletv1.StopContainer{Container: "main", ContainerId: "e",
		Reason: "Container main failed liveness probe, will be restarted"}, ok, "")
	j.step(&journaletv1.PodStatusChanged{Waiting: map[string]*journaletv1.ContainerWaiting{
		"main": {Reason: "CrashLoopBackOff"}, "init": {Reason: "ImagePullBackOff"}}})
	j.call(&journaletv1.RunSandbox{Attempt: 1}, ok, "")
	var got []string
	d := newDeriver(manifest)
	for _, rec := range j.records {
		for _, e := range d.derive(rec) {
			o := e.object("n", "node-uid", d)
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", o.Type, o.Reason, o.Message,
				o.InvolvedObject.FieldPath)))
		}
	}
	want := `Warning OutOfcpu Node didn't have enough resource: cpu
Warning FailedCreatePodSandBox Failed to create pod sandbox: no network
Normal Pulling Pulling image "app:1" spec.containers{main}
Normal Pulled Successfully pulled image "app:1" in 1.5s (1.5s including waiting). Image size: 12 bytes. spec.containers{main}
Normal Created Container created spec.containers{main}
Normal Started Container started spec.containers{main}
Normal Pulled Container image "setup:1" already present on machine and can be accessed by the pod spec.initContainers{init}
Normal Created Container created spec.initContainers{init}
Normal Started Container started spec.initContainers{init}
Normal Pulling Pulling image "debug:1" spec.ephemeralContainers{debug}
Normal Pulled Container image "debug:1" already present on machine and can be accessed by the pod spec.ephemeralContainers{debug}
Normal Created Container created spec.ephemeralContainers{debug}
Normal Started Container started spec.ephemeralContainers{debug}
Warning Unhealthy Readiness probe failed: no spec.containers{main}
Warning ProbeWarning Liveness probe warning: moved spec.containers{main}
Normal Killing Stopping container main spec.containers{main}
Warning FailedPreStopHook PreStopHook failed spec.containers{main}
Normal Killing Container main failed liveness probe, will be restarted spec.containers{main}
Normal BackOff Back-off pulling image "setup:1" spec.initContainers{init}
Warning Failed Error: ImagePullBackOff spec.initContainers{init}
Warning BackOff Back-off restarting failed container main in pod web_ns(u) spec.containers{main}
Normal SandboxChanged Pod sandbox changed, it will be killed and re-created.`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("events\n%s\nwant\n%s", s, want)
	}
}

func TestAVolumeThatIsNotSetUpHasOneEventForEachReason(t *testing.T) {
	j := newJournal()
	waits := func(message string) {
		w := &journaletv1.ContainerWaiting{Reason: "ContainerCreating", Message: message}
		j.step(&journaletv1.PodStatusChanged{Waiting: map[string]*journaletv1.ContainerWaiting{"main": w, "other": w}})
	}
	missing := `MountVolume.SetUp failed for volume "v" : configmap "c" not found`
	busy := `MountVolume.SetUp failed for volume "v" : it is busy`
	waits(missing)
	waits(missing)
	j.call(&journaletv1.SetUpVolumes{}, journaletv1.CallError_CALL_ERROR_VOLUME, "")
	j.records[len(j.records)-1].GetFact().GetCallFinished().Volumes = []*journaletv1.VolumeOutcome{
		{Name: "v", Message: busy}, {Name: "w", Message: "gone"},
	}
	waits(missing)
	waits("")
	var got []string
	d := newDeriver(manifest)
	for _, rec := range j.records {
		for _, e := range d.derive(rec) {
			got = append(got, e.reason+" "+e.message)
		}
	}
	gone := `MountVolume.SetUp failed for volume "w" : gone`
	want := "FailedMount " + strings.Join([]string{missing, busy, gone, missing}, "\nFailedMount ")
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("events\n%s\nwant\n%s", s, want)
	}
}

// server is an API server that keeps events.
type server struct {
	mu     sync.Mutex
	events map[string]*corev1.Event
	fail   error
	log    []string
}

func (s *server) create(_ context.Context, e *corev1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	if s.events[e.Name] != nil {
		s.log = append(s.log, "again "+e.Reason)
		return apierrors.NewAlreadyExists(schema.GroupResource{}, e.Name)
	}
	s.events[e.Name] = e
	s.log = append(s.log, "create "+e.Reason)
	return nil
}

func (s *server) patch(_ context.Context, _, name string, patch []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.log = append(s.log, "patch "+s.events[name].Reason)
	return nil
}

func (s *server) requests(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if fmt.Sprint(s.log) != fmt.Sprint(want) {
		t.Errorf("requests %q, want %q", s.log, want)
	}
	s.log = nil
}

func (s *server) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// run runs a driver over a journal; the driver has seen its first records, up to last, in earlier runs.
func run(t *testing.T, s *server, j *journal, root string, last int, test func(*Driver)) {
	t.Helper()
	d := New(Options{
		NodeName: "n", RootDir: root, Manifest: manifest, Create: s.create, Patch: s.patch,
		Read: j.read(t),
	})
	d.SeedNode("node-uid", "", uint64(last))
	for _, rec := range j.records[last:] {
		d.Stored(rec)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	synctest.Wait()
	test(d)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func started() *journal {
	j := newJournal()
	j.call(&journaletv1.StartContainer{Container: "main", PulledForStart: true}, ok, "")
	return j
}

func TestEventsWaitForTheAPIServerAndAreSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{events: map[string]*corev1.Event{}, fail: errors.New("connection refused")}
		j, root := started(), t.TempDir()
		run(t, s, j, root, 0, func(*Driver) {
			s.requests(t)
			s.set(nil)
			<-time.After(time.Minute)
			s.requests(t, "create Created", "create Started")
		})
		// Nothing is left to send after a restart.
		run(t, s, j, root, len(j.records), func(*Driver) { s.requests(t) })
		// The cursor is lost in a crash: the same names again.
		must.OK(t, writeCursor(filepath.Join(root, cursorFile), 1))
		run(t, s, j, root, len(j.records), func(*Driver) { s.requests(t, "again Created", "again Started") })
		for _, e := range s.events {
			if e.Annotations[AnnotationRecord] != "1.3.0" || e.Source.Component != "kubelet" || e.InvolvedObject.Name != "web" {
				t.Errorf("the event is %v", e)
			}
		}
	})
}

func TestRefusedEventHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{events: map[string]*corev1.Event{}, fail: apierrors.NewForbidden(schema.GroupResource{}, "e", nil)}
		run(t, s, started(), t.TempDir(), 0, func(d *Driver) {
			s.set(nil)
			d.Emit(corev1.EventTypeNormal, "NodeReady", "Node n status is now: NodeReady")
			s.requests(t, "create NodeReady")
		})
	})
}

func TestAnEventOfAnyObjectIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{events: map[string]*corev1.Event{}}
		run(t, s, newJournal(), t.TempDir(), 0, func(d *Driver) {
			about := corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "shop", Name: "data", UID: "u-data",
			}
			d.EmitObject(about, corev1.EventTypeNormal, "FileSystemResizeSuccessful", "message")
			s.requests(t, "create FileSystemResizeSuccessful")
			for _, e := range s.events {
				if e.InvolvedObject != about || e.Namespace != "shop" || !strings.HasPrefix(e.Name, "data.") {
					t.Errorf("the event is %v", e)
				}
			}
		})
	})
}

func TestLostEventsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{events: map[string]*corev1.Event{}, fail: errors.New("connection refused")}
		run(t, s, newJournal(), t.TempDir(), 0, func(d *Driver) {
			for range maxQueued + 7 {
				d.Emit(corev1.EventTypeNormal, "Alike", "message")
			}
			s.set(nil)
			<-time.After(time.Minute)
			synctest.Wait()
			for _, e := range s.events {
				if e.Reason == "EventsLost" && e.InvolvedObject.Kind == "Node" && strings.HasPrefix(e.Message, "7 ") {
					return
				}
			}
			t.Errorf("no event reports the 7 that were lost; there are %d", len(s.events))
		})
	})
}

func TestFloodsAreCombinedAndObjectsLimited(t *testing.T) {
	c := newCorrelator()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	send := func(message string) (o outcome, ok bool) {
		at = at.Add(time.Second)
		about := &journaletv1.PodRef{Uid: "u", Name: "p"}
		e := draft{pod: about, reason: "R", message: message, at: at}.object("n", "", newDeriver(manifest))
		if o, ok = c.correlate(e); ok {
			c.sent(o)
		}
		return o, ok
	}
	for i := range 3 {
		if o, _ := send("same"); int(o.event.Count) != i+1 || (o.patch == nil) != (i == 0) {
			t.Errorf("repetition %d has the count %d and the patch %s", i, o.event.Count, o.patch)
		}
	}
	for i := range 8 {
		if o, _ := send(fmt.Sprint("other ", i)); strings.HasPrefix(o.event.Message, combined) {
			t.Errorf("message %d is combined", i)
		}
	}
	if o, _ := send("one too many"); o.event.Message != combined+"one too many" || o.patch != nil {
		t.Errorf("the tenth message is %q", o.event.Message)
	}
	sent := 12
	for range 20 {
		if _, ok := send("same"); ok {
			sent++
		}
	}
	if sent != objectBurst {
		t.Errorf("%d events of one object were sent, want %d", sent, objectBurst)
	}
	at = at.Add(objectEvery)
	if _, ok := send("same"); !ok {
		t.Error("an object that was quiet for 5 min has no event")
	}
}
