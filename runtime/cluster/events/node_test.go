package events

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// emitted returns the events of a journal, one a line.
func emitted(j *journal, getManifest func(string) (*corev1.Pod, error)) string {
	d := newDeriver(getManifest)
	d.hostIP = "10.0.0.1"
	var out []string
	for _, rec := range j.records {
		for _, e := range d.derive(rec) {
			o := e.object("n", "node-uid", d)
			out = append(out, strings.Join([]string{o.InvolvedObject.Kind, o.Type, o.Reason, o.Message}, " "))
		}
	}
	return strings.Join(out, "\n")
}

func TestPodThatWaitsForTheNetworkHasAnEvent(t *testing.T) {
	j := newJournal()
	down := &journaletv1.RuntimeHealthChanged{RuntimeReady: true,
		Message: "NetworkReady=false reason:NetworkPluginNotReady message:no CNI"}
	call := func(host bool) {
		c := messages.NewCall(&journaletv1.RunSandbox{HostNetwork: host})
		c.PodUid = "u"
		j.step(c)
	}
	call(false)
	j.add(messages.Runtime, true, down) // a call already waits
	call(true)                          // has the host's network
	j.add(messages.Runtime, true, &journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true})
	call(false)
	want := "Pod Warning NetworkNotReady network is not ready: container runtime network not ready: NetworkReady=false " +
		"reason:NetworkPluginNotReady message:no CNI"
	if got := emitted(j, manifest); got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
	// One that is to be created meanwhile.
	j = newJournal()
	j.add(messages.Runtime, true, down)
	call(false)
	if got := emitted(j, manifest); got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
}

func TestNameOfAnEventDoesNotDependOnOtherPods(t *testing.T) {
	j := newJournal()
	j.add(messages.Runtime, true, &journaletv1.RuntimeHealthChanged{RuntimeReady: true, Message: "NetworkReady=false"})
	name := func(pods ...string) string {
		d := newDeriver(manifest)
		for _, uid := range pods {
			c := messages.NewCall(&journaletv1.RunSandbox{})
			c.PodUid, d.pods[uid] = uid, &journaletv1.PodRef{Uid: uid, Namespace: "default", Name: "web"}
			d.calls[uid] = c
		}
		drafts := d.derive(j.records[len(j.records)-1])
		if len(drafts) != len(pods) {
			t.Fatalf("%d events of %d pods", len(drafts), len(pods))
		}
		return drafts[len(drafts)-1].object("n", "node-uid", d).Name
	}
	if alone, beside := name("y"), name("x", "y"); alone != beside {
		t.Errorf("the name is %s, and beside an event of another pod %s", alone, beside)
	}
	if x, y := name("x"), name("y"); x == y {
		t.Errorf("two pods with one name have events with one name, %s", x)
	}
}

func TestEachCycleOfAnEvictionHasOneEvent(t *testing.T) {
	j := newJournal()
	for _, p := range []*journaletv1.EvictionProgressed{
		{Stage: journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMING, Signal: "nodefs.available"},
		{Stage: journaletv1.EvictionStage_EVICTION_STAGE_RECLAIMED, RequestId: 1},
		{Stage: journaletv1.EvictionStage_EVICTION_STAGE_ENDING, Signal: "nodefs.available"},
		{Stage: journaletv1.EvictionStage_EVICTION_STAGE_MEASURING, RequestId: 2},
		{Stage: journaletv1.EvictionStage_EVICTION_STAGE_ENDING, Signal: "allocatableMemory.available"},
		{},
	} {
		j.step(p)
	}
	d := newDeriver(manifest)
	var got []string
	for _, rec := range j.records {
		for _, e := range d.derive(rec) {
			got = append(got, e.kind+" "+e.reason+" "+e.message)
		}
	}
	want := []string{
		"Warning EvictionThresholdMet Attempting to reclaim ephemeral-storage",
		"Warning EvictionThresholdMet Attempting to reclaim memory",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The health of the runtime explains a record only as it was then. What the fold has of it may be older than the last
// records, which no actor has handled.
func TestRecordsBeforeTheStartAreExplainedByTheHealthOfThen(t *testing.T) {
	down := &journaletv1.RuntimeHealthChanged{RuntimeReady: true, Message: "NetworkReady=false"}
	up := &journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true}
	for name, tt := range map[string]struct {
		before, after []*journaletv1.RuntimeHealthChanged
		folded        *journaletv1.RuntimeHealthChanged
		want          int
	}{
		"came back before":         {[]*journaletv1.RuntimeHealthChanged{down, up}, nil, up, 0},
		"went while the pod waits": {nil, []*journaletv1.RuntimeHealthChanged{down}, down, 1},
		"was away":                 {[]*journaletv1.RuntimeHealthChanged{down}, nil, down, 1},
		"was away, and is back": {
			[]*journaletv1.RuntimeHealthChanged{down}, []*journaletv1.RuntimeHealthChanged{up}, up, 1,
		},
		"was away, which none folded": {[]*journaletv1.RuntimeHealthChanged{up, down}, nil, up, 1},
	} {
		t.Run(name, func(t *testing.T) {
			j, root := newJournal(), t.TempDir()
			for _, h := range tt.before {
				j.add(messages.Runtime, true, h)
			}
			run := messages.NewCall(&journaletv1.RunSandbox{})
			run.PodUid = "u"
			j.step(run)
			id := messages.DecisionID(1, uint64(len(j.records)), messages.Pod("u"), 0)
			for _, h := range tt.after {
				j.add(messages.Runtime, true, h)
			}
			must.OK(t, writeCursor(filepath.Join(root, cursorFile), 1))
			s := &server{events: map[string]*corev1.Event{}}
			d := New(Options{NodeName: "n", RootDir: root, Manifest: manifest, Create: s.create, Patch: s.patch,
				Read: j.read(t),
			})
			d.Seed(&journaletv1.PodRef{Uid: "u", Namespace: "default", Name: "web"},
				map[string]*journaletv1.PodCall{id: {Request: run}})
			d.SeedHealth(tt.folded)
			d.SeedNode("node-uid", "", uint64(len(j.records)))
			d.CatchUp(t.Context())
			for d.Send(t.Context()) {
			}
			if len(s.events) != tt.want {
				t.Errorf("sent %v, want %d events", s.log, tt.want)
			}
			if got := d.deriver.health; got != newest(tt.folded, tt.before, tt.after) {
				t.Errorf("later records are explained by %v", got)
			}
		})
	}
}

// A run of the agent whose last events were all sent derives none again, and knows the health all the same.
func TestHealthThatNoneFoldedIsKnown(t *testing.T) {
	j, root := newJournal(), t.TempDir()
	down := &journaletv1.RuntimeHealthChanged{RuntimeReady: true, Message: "NetworkReady=false"}
	j.add(messages.Runtime, true, down)
	must.OK(t, writeCursor(filepath.Join(root, cursorFile), uint64(len(j.records))))
	d := New(Options{NodeName: "n", RootDir: root, Manifest: manifest, Read: j.read(t)})
	d.SeedHealth(&journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true})
	d.SeedNode("node-uid", "", uint64(len(j.records)))
	d.CatchUp(t.Context())
	if d.deriver.health != down {
		t.Errorf("later records are explained by %v", d.deriver.health)
	}
}

func newest(
	folded *journaletv1.RuntimeHealthChanged, changes ...[]*journaletv1.RuntimeHealthChanged,
) *journaletv1.RuntimeHealthChanged {
	for _, list := range changes {
		for _, h := range list {
			folded = h
		}
	}
	return folded
}

func TestEventHasTheNameThatThePodHadThen(t *testing.T) {
	updated := func(op journaletv1.PodOperation, name string) *journaletv1.PodUpdated {
		return &journaletv1.PodUpdated{Operation: op, Pod: &journaletv1.PodRef{Uid: "u", Namespace: "ns", Name: name}}
	}
	add, change := journaletv1.PodOperation_POD_OPERATION_ADD, journaletv1.PodOperation_POD_OPERATION_UPDATE
	for _, tt := range []struct {
		name  string
		since []proto.Message // after the stop, which has an event
	}{
		{"renamed", []proto.Message{updated(change, "next"), updated(add, "next")}},
		{"forgotten, and another one", []proto.Message{&journaletv1.PodForgotten{Uid: "u"}, updated(add, "next")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j, root := &journal{}, t.TempDir()
			j.add(messages.Source("file"), false, updated(add, "first"))
			for len(j.records) < contextRecords+10 {
				j.step()
			}
			must.OK(t, writeCursor(filepath.Join(root, cursorFile), uint64(len(j.records))))
			j.call(&journaletv1.StopContainer{Container: "main", ContainerId: "c", Reason: "pod removed"}, ok, "")
			for _, e := range tt.since {
				j.add(messages.Source("file"), false, e)
			}
			s := &server{events: map[string]*corev1.Event{}}
			d := New(Options{NodeName: "n", RootDir: root, Manifest: manifest, Create: s.create, Patch: s.patch,
				Read: j.read(t),
			})
			d.Seed(&journaletv1.PodRef{Uid: "u", Namespace: "ns", Name: "next"}, nil)
			d.SeedNode("node-uid", "", uint64(len(j.records)))
			d.CatchUp(t.Context())
			for d.Send(t.Context()) {
			}
			if len(s.events) != 1 {
				t.Fatalf("sent %v", s.log)
			}
			for _, e := range s.events {
				if e.Reason != "Killing" || e.InvolvedObject.Name != "first" {
					t.Errorf("%s is about %s", e.Reason, e.InvolvedObject.Name)
				}
			}
		})
	}
}

// The next run of the agent names a pod by its last addition: this one does, too.
func TestPodKeepsItsNameUntilItIsAddedAgain(t *testing.T) {
	d := &deriver{pods: map[string]*journaletv1.PodRef{}}
	for _, tt := range []struct {
		op         journaletv1.PodOperation
		said, want string
	}{
		{journaletv1.PodOperation_POD_OPERATION_ADD, "first", "first"},
		{journaletv1.PodOperation_POD_OPERATION_UPDATE, "next", "first"},
		{journaletv1.PodOperation_POD_OPERATION_REMOVE, "next", "first"},
		{journaletv1.PodOperation_POD_OPERATION_ADD, "next", "next"},
	} {
		d.updated(&journaletv1.PodUpdated{
			Operation: tt.op, Pod: &journaletv1.PodRef{Uid: "u", Namespace: "ns", Name: tt.said},
		})
		if got := d.pods["u"].GetName(); got != tt.want {
			t.Errorf("after %s of %s the pod is %s, want %s", tt.op, tt.said, got, tt.want)
		}
	}
}

func TestMissingPullSecretsHaveAnEvent(t *testing.T) {
	getManifest := func(string) (*corev1.Pod, error) {
		return &corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{
			{Name: "there"}, {Name: "gone"}, {Name: "locked"},
		}}}, nil
	}
	j := newJournal()
	j.add(messages.Image, false, &journaletv1.ImagePullDecided{Uid: "u", Image: "a",
		Error:   journaletv1.CallError_CALL_ERROR_RUNTIME,
		Message: `denied (credentials tried: 1; secret "gone" not found; secret "locked" cannot be read)`})
	want := "Pod Warning FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (gone, locked); " +
		"attempting to pull the image may not succeed."
	if got := emitted(j, getManifest); !strings.Contains(got, want) {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
	j = newJournal()
	j.add(messages.Image, false, &journaletv1.ImagePullDecided{Uid: "u", Image: "a",
		Error: journaletv1.CallError_CALL_ERROR_RUNTIME, Message: "denied (credentials tried: 1)"})
	if got := emitted(j, getManifest); strings.Contains(got, "Retrieve") {
		t.Errorf("events\n%s", got)
	}
}

func TestPodThatEndsLateHasAnEvent(t *testing.T) {
	evicted := &journaletv1.PodTerminating{Reason: "Evicted", Grace: durationpb.New(time.Second)}
	deadline := &journaletv1.PodTerminating{Reason: "DeadlineExceeded"}
	shutdown := &journaletv1.PodEvictionDecided{Uid: "u", Reason: "Terminated"}
	hurried := &journaletv1.PodEvictionDecided{Uid: "u", Reason: "Terminated", Grace: durationpb.New(10 * time.Second)}
	for name, one := range map[string]struct {
		ends *journaletv1.PodTerminating
		by   *journaletv1.PodEvictionDecided
		took time.Duration
		late bool
	}{
		"evicted, in time":           {ends: evicted, took: 9 * time.Second},
		"evicted, late":              {ends: evicted, took: 11 * time.Second, late: true},
		"by a deadline of its own":   {ends: deadline, took: time.Hour},
		"by a shutdown, in time":     {by: shutdown, took: 44 * time.Second},
		"by a shutdown, late":        {by: shutdown, took: 46 * time.Second, late: true},
		"by a shutdown that hurries": {by: hurried, took: 16 * time.Second, late: true},
	} {
		j := newJournal()
		if one.ends != nil {
			j.step(one.ends)
		} else {
			j.add(messages.Node, false, one.by)
		}
		begun := j.records[len(j.records)-1].GetTime().AsTime()
		j.step(&journaletv1.PodTerminated{Uid: "u"})
		j.records[len(j.records)-1].Time = timestamppb.New(begun.Add(one.took))
		const want = "Pod Warning ExceededGracePeriod Container runtime did not kill the pod within specified grace period."
		if got := emitted(j, manifest); strings.Contains(got, want) != one.late {
			t.Errorf("%s: events\n%s", name, got)
		}
	}
}

func TestGarbageCollectionHasEventsOfTheNode(t *testing.T) {
	j := newJournal()
	j.add(messages.Image, true, &journaletv1.ImageFilesystemFull{CapacityBytes: 10 << 30, AvailableBytes: 1 << 30})
	j.add(messages.Image, false, &journaletv1.ImagesCollected{WantedBytes: 10, FreedBytes: 10})
	j.add(messages.Image, false, &journaletv1.ImagesCollected{WantedBytes: 10, FreedBytes: 4})
	remove := func(failed journaletv1.CallError, inUse bool) {
		id := messages.DecisionID(1, uint64(len(j.records)+1), messages.Image, 0)
		j.add(messages.Image, false, messages.NewCall(&journaletv1.RemoveImage{ImageId: "i"}))
		j.add(messages.Image, true, &journaletv1.CallFinished{IntentId: id, Requester: "image/0", Error: failed,
			ImageInUse: inUse, Message: fmt.Sprint("failure ", len(j.records))})
	}
	remove(journaletv1.CallError_CALL_ERROR_RUNTIME, false)
	remove(ok, false)
	remove(journaletv1.CallError_CALL_ERROR_RUNTIME, false)
	remove(journaletv1.CallError_CALL_ERROR_RUNTIME, true)
	remove(journaletv1.CallError_CALL_ERROR_RUNTIME, false)
	remove(journaletv1.CallError_CALL_ERROR_RUNTIME, false) // the second in a row
	j.call(&journaletv1.RemoveContainer{ContainerId: "c"}, journaletv1.CallError_CALL_ERROR_RUNTIME, "busy")
	want := "Node Warning FreeDiskSpaceFailed Insufficient free disk space on the node's image filesystem (90% of 10.0 " +
		"GiB used). Failed to free sufficient space by deleting unused images (freed 4 bytes). Investigate disk usage, as " +
		"it could be used by active images, logs, volumes, or other data.\nNode Warning ImageGCFailed failure 15\n" +
		"Node Warning ContainerGCFailed busy"
	if got := emitted(j, manifest); got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
}

func TestOtherMachinesOfThisNameHaveEvents(t *testing.T) {
	j := newJournal()
	other := &journaletv1.OtherMachine{MachineId: "m", BootId: "b", Address: "6.6.6.6"}
	j.add(messages.Node, true, &journaletv1.NodeRegistered{Uid: "node-uid", OtherMachine: other})
	for _, o := range []*journaletv1.OtherMachine{nil, other, other, nil, other} {
		j.add(messages.Node, true, &journaletv1.NodeObserved{Uid: "node-uid", OtherMachine: o})
	}
	conflict := "Node Warning NodeNameConflict Another machine (machine ID m, boot ID b, address 6.6.6.6) reports " +
		"itself as this Node, too: its pods run twice. Stop its agent, or give one of the two another name with " +
		"--hostname-override"
	want := "Node Warning NodeTakenOver This Node was of another machine (machine ID m, address 6.6.6.6)\n" +
		conflict + "\n" + conflict
	if got := emitted(j, manifest); got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
}

// A cloud provider that gives the Node addresses of another family is reported once, and again after it was in order.
func TestAddressesOfAnotherFamilyHaveAnEvent(t *testing.T) {
	j := newJournal()
	for _, ip := range []string{"10.0.0.9", "fd00::1", "fd00::1", "10.0.0.1", "fd00::2", ""} {
		o := &journaletv1.NodeObserved{Uid: "node-uid", Ips: &journaletv1.NodeIPs{}}
		if ip != "" {
			o.Ips.Internal = []string{ip}
		}
		j.add(messages.Node, true, o)
	}
	var want []string
	for _, ip := range []string{"fd00::1", "fd00::2"} {
		want = append(want, "Node Warning HostIPsIPFamilyMismatch Kubelet detected an IPv4 node IP (10.0.0.1), but the "+
			"cloud provider selected an IPv6 node IP ("+ip+"); pass an explicit `--node-ip` to kubelet to fix this.")
	}
	if got := emitted(j, manifest); got != strings.Join(want, "\n") {
		t.Errorf("events\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestKillForLackOfMemoryHasEvents(t *testing.T) {
	j := newJournal()
	j.add(messages.Node, true, &journaletv1.OomKillObserved{
		Scope: journaletv1.OomScope_OOM_SCOPE_NODE, Process: "python3", Pid: 7,
	})
	want := "Node Warning SystemOOM System OOM encountered, victim process: python3, pid: 7"
	if got := emitted(j, manifest); got != want {
		t.Errorf("events\n%s\nwant the kubelet's\n%s", got, want)
	}
	j = newJournal()
	j.add(messages.Pod("u"), true, &journaletv1.OomKillObserved{
		Scope: journaletv1.OomScope_OOM_SCOPE_CONTAINER, Process: "python3", Pid: 7, Uid: "u", Container: "app",
	})
	want = "Pod Warning OOMKilled The container reached its memory limit, victim process: python3, pid: 7"
	if got := emitted(j, manifest); got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
}
