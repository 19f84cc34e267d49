package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

// listWatch lists and watches the pods of node n1 at url.
func listWatch(t *testing.T, url string) cache.ListerWatcher {
	t.Helper()
	scheme := runtime.NewScheme()
	must.OK(t, corev1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	client, err := rest.RESTClientFor(&rest.Config{Host: url, APIPath: "/api", QPS: -1, ContentConfig: rest.ContentConfig{
		GroupVersion:         &corev1.SchemeGroupVersion,
		NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
	}})
	must.OK(t, err)
	return cache.NewListWatchFromClient(client, "pods", "", fields.OneTermEqualSelector("spec.nodeName", "n1"))
}

// run is one run of a driver.
type run struct {
	*Driver
	facts chan *journaletv1.ManifestsRead
	stop  func()
}

func start(t *testing.T, url string, seed *journaletv1.SourceState, o Options) *run {
	t.Helper()
	r := &run{facts: make(chan *journaletv1.ManifestsRead, 1000)}
	if o.ListWatch == nil {
		o.ListWatch = listWatch(t, url)
	}
	if o.Store == nil {
		o.Store = func(context.Context, iter.Seq2[string, []byte]) error { return nil }
	}
	o.Sink = func(_ context.Context, m *journaletv1.ManifestsRead) error { r.facts <- m; return nil }
	r.Driver = New(o)
	r.Seed(seed)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	return r
}

func testPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Finalizers: []string{"example.com/f"},
			Annotations: map[string]string{manifest.ConfigSeenAnnotation: "x"}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func (r *run) one(t *testing.T, uid string) *journaletv1.ApiPod {
	t.Helper()
	m := <-r.facts
	if len(m.GetChanged()) != 1 || m.GetChanged()[0].GetPath() != uid || len(m.GetChanged()[0].GetPods()) != 1 {
		t.Fatalf("got %v, want the pod %s", m, uid)
	}
	return m.GetChanged()[0].GetPods()[0].GetApi()
}

func TestPodsBecomeFactsOnlyWhenTheyChange(t *testing.T) {
	for _, noWatchList := range []bool{false, true} {
		s := fakeapi.New()
		s.NoWatchList = noWatchList
		uid := s.Create("pods", testPod("a"))
		r := start(t, s.Start(t), nil, Options{})
		first := <-r.facts
		if len(first.GetChanged()) != 1 || !first.GetSynced() || first.GetSource() != messages.APISource {
			t.Fatalf("the first fact is %v", first)
		}
		ref := first.GetChanged()[0].GetPods()[0]
		if a := ref.GetApi(); ref.GetUid() != uid || a.GetGeneration() != 1 || a.GetDeleted() {
			t.Errorf("the pod is %v", ref)
		}
		pod := new(corev1.Pod)
		status := func(phase corev1.PodPhase) {
			s.Change("pods", "status", "default", "a", pod, func() { pod.Status.Phase, pod.Status.PodIP = phase, "10.0.0.1" })
		}
		status(corev1.PodRunning) // no fact
		s.Change("pods", "", "default", "a", pod, func() { pod.Spec.Containers[0].Image = "j" })
		if a := r.one(t, uid); a.GetGeneration() != 2 {
			t.Errorf("after an update: %v", a)
		}
		s.Delete("pods", "default", "a", 5)
		if a := r.one(t, uid); !a.GetDeleted() || a.GetDeletionGraceSeconds() != 5 {
			t.Errorf("after the deletion: %v", a)
		}
		status(corev1.PodFailed)
		if a := r.one(t, uid); a.GetTerminalPhase() != journaletv1.PodPhase_POD_PHASE_FAILED {
			t.Errorf("after it failed: %v", a)
		}
		s.Delete("pods", "default", "a", 0) // its finalizer holds it: no fact, though its grace period is 0 now
		s.Change("pods", "", "default", "a", pod, func() { pod.Finalizers = nil })
		if m := <-r.facts; len(m.GetChanged()) != 1 || len(m.GetChanged()[0].GetPods()) != 0 {
			t.Errorf("after it went: %v", m)
		}
		r.stop()
		if len(r.facts) > 0 || r.Pods().Get(types.UID(uid)) != nil {
			t.Errorf("%d facts left: %v", len(r.facts), <-r.facts)
		}
	}
}

func TestNothingIsRemovedBeforeACompleteList(t *testing.T) {
	s := fakeapi.New()
	var requests atomic.Int32
	again, gate := make(chan struct{}), make(chan struct{})
	s.Faults = func(fakeapi.APIRequest) *fakeapi.Fault {
		switch requests.Add(1) {
		case 1:
			return &fakeapi.Fault{Code: http.StatusForbidden, Reason: "Forbidden"}
		case 2: // at once, by whatever way the reflector has left
			return &fakeapi.Fault{Hold: func(context.Context) { close(again); <-gate }}
		}
		return nil
	}
	gone := &journaletv1.SourceState{Synced: true, Files: map[string]*journaletv1.ManifestFile{
		"u1": {Path: "u1", Pods: []*journaletv1.PodRef{{Uid: "u1"}}},
	}}
	r := start(t, s.Start(t), gone, Options{})
	<-again
	if r.Complete() || len(r.facts) > 0 {
		t.Errorf("without a list: complete %t, %d facts", r.Complete(), len(r.facts))
	}
	close(gate)
	m := <-r.facts
	if f := m.GetChanged()[0]; !m.GetSynced() || f.GetPath() != "u1" || len(f.GetPods()) > 0 {
		t.Errorf("after the list: %v", m)
	}
}

func TestDeletionOfAnOutageIsReadWhenTheServerReturns(t *testing.T) {
	s := fakeapi.New()
	uid := s.Create("pods", testPod("a"))
	returned, paused := make(chan struct{}), make(chan bool, 100)
	r := start(t, s.Start(t), nil, Options{Returned: func() <-chan struct{} {
		paused <- true
		return returned
	}})
	<-r.facts
	s.SetDown(true)
	<-paused
	s.Delete("pods", "default", "a", 5)
	s.SetDown(false)
	close(returned)
	if a := r.one(t, uid); !a.GetDeleted() {
		t.Errorf("after the outage: %v", a)
	}
}

func TestMirrorPodsAreKeptApart(t *testing.T) {
	s := fakeapi.New()
	mirror := testPod("m")
	mirror.Annotations[manifest.ConfigMirrorAnnotation] = "hash"
	uid := s.Create("pods", mirror)
	r := start(t, s.Start(t), nil, Options{})
	if m := <-r.facts; len(m.GetChanged()) != 0 || !m.GetSynced() {
		t.Errorf("got %v, want nothing but the sync", m)
	}
	if all := r.Pods().List(true); len(all) != 1 || string(all[0].UID) != uid || len(r.Pods().List(false)) != 0 {
		t.Errorf("mirror pods: %v", all)
	}
}

func TestBurstIsFewFacts(t *testing.T) {
	s := fakeapi.New()
	entered, release := make(chan bool, 10), make(chan struct{})
	r := start(t, s.Start(t), nil, Options{Store: func(_ context.Context, all iter.Seq2[string, []byte]) error {
		entered <- true
		<-release
		return nil
	}})
	<-r.facts
	const pods = 200
	s.Create("pods", testPod("first"))
	<-entered
	names := map[string]bool{}
	for i := range pods {
		names[s.Create("pods", testPod("p"+strings.Repeat("x", i)))] = true
	}
	must.Eventually(t, time.Minute, "pods that the watch has shown", func() (string, bool) {
		n := len(r.Pods().List(false))
		return fmt.Sprint(n), n > pods
	})
	close(release)
	facts, seen := 0, 0
	for ; seen <= pods; facts++ {
		seen += len((<-r.facts).GetChanged())
	}
	if facts > 2 {
		t.Errorf("%d facts for %d pods", facts, seen)
	}
}

func TestPodThatCannotBeStoredIsRetried(t *testing.T) {
	s := fakeapi.New()
	uid := s.Create("pods", testPod("a"))
	var tries atomic.Int32
	r := start(t, s.Start(t), nil, Options{Store: func(context.Context, iter.Seq2[string, []byte]) error {
		if tries.Add(1) < 3 {
			return errors.New("disk full")
		}
		return nil
	}})
	r.one(t, uid)
}

func TestUnsupportedFieldsAreNamed(t *testing.T) {
	for field, change := range map[string]func(*corev1.PodSpec){
		"spec.volumes[0].iscsi": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}}}
		},
		"": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{
				{Name: "n", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}},
				{Name: "p", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}},
				{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
					VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}},
			}
			s.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "c",
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
			s.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "p", DevicePath: "/dev/p"}}
			s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
			s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
			s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "c"}}
			// A kubelet on Linux ignores these.
			windows := &corev1.WindowsSecurityContextOptions{RunAsUserName: new(string)}
			s.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: windows}
			s.Containers[0].SecurityContext = &corev1.SecurityContext{WindowsOptions: windows}
			s.EphemeralContainers[0].SecurityContext = &corev1.SecurityContext{WindowsOptions: windows}
		},
	} {
		pod := testPod("a")
		change(&pod.Spec)
		got := manifest.UnsupportedOfAPI(&pod.Spec)
		if got != field && !strings.HasPrefix(got, field+"[") && !strings.HasPrefix(got, field+".") {
			t.Errorf("got %q, want %q", got, field)
		}
	}
	p, _ := manifest.FromAPI(testPod("a"))
	if p.Pod.Annotations != nil || p.Pod.Finalizers != nil || p.Digest != manifest.Digest(p.Canonical) {
		t.Errorf("stored: %+v", p.Pod.ObjectMeta)
	}
}

func TestClaimOfExtendedResourcesIsKept(t *testing.T) {
	p := new(corev1.Pod)
	p.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"g.example/gpu": resource.MustParse("2"), "g.example/none": resource.MustParse("0")},
	}}}
	if got := extendedClaim(p); got != nil {
		t.Errorf("a pod without a claim has %v", got)
	}
	request := func(container, res, name string) corev1.ContainerExtendedResourceRequest {
		return corev1.ContainerExtendedResourceRequest{ContainerName: container, ResourceName: res, RequestName: name}
	}
	st := &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "x", RequestMappings: []corev1.ContainerExtendedResourceRequest{
			request("a", "g.example/gpu", "r1"), request("a", "g.example/none", "r2"), request("b", "g.example/gpu", "r3"),
			request("a", "g.example/gpu", strings.Repeat("r", 300)),
		},
	}
	for range 200 {
		st.RequestMappings = append(st.RequestMappings, request("a", "g.example/gpu", "more"))
	}
	p.Status.ExtendedResourceClaimStatus = st
	got := extendedClaim(p)
	if got.GetName() != "x" || len(got.GetRequests()) != maxExtended || got.GetRequests()[0].GetRequest() != "r1" ||
		got.GetRequests()[1].GetRequest() != "more" {
		t.Errorf("%d requests: %v", len(got.GetRequests()), got)
	}
	st.ResourceClaimName = strings.Repeat("x", 300)
	if got := extendedClaim(p); got != nil {
		t.Errorf("a name of 300 bytes is kept: %v", got)
	}
}

func TestReadyContainersAreThoseOfTheFirstRead(t *testing.T) {
	s := fakeapi.New()
	pod := testPod("a")
	status := func(id string, ready bool) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "c", ContainerID: id, Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	ended := status("containerd://ended", true)
	ended.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	uid := s.Create("pods", pod)
	s.Change("pods", "status", "default", "a", pod, func() {
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{ended, status("containerd://sidecar", true)}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			status("containerd://main", true), status("containerd://unready", false), status("", true),
			status("containerd://"+strings.Repeat("x", maxContainerIDBytes+1), true),
		}
	})
	r := start(t, s.Start(t), nil, Options{})
	want := []string{"sidecar", "main"}
	if got := r.one(t, uid).GetReadyContainers(); !slices.Equal(got, want) {
		t.Errorf("first read: %v, want %v", got, want)
	}
	s.Change("pods", "status", "default", "a", pod, func() { pod.Status.ContainerStatuses[0].ContainerID = "x://later" })
	s.Change("pods", "", "default", "a", pod, func() { pod.Spec.Containers[0].Image = "j" })
	if got := r.one(t, uid).GetReadyContainers(); !slices.Equal(got, want) {
		t.Errorf("after an update: %v, want %v: what is recorded stays", got, want)
	}
	pod.Status.ContainerStatuses = nil
	for range 2 * maxReady {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status("cri-o://many", true))
	}
	if got := readyContainers(pod); len(got) != maxReady {
		t.Errorf("%d ids are recorded, want %d at most", len(got), maxReady)
	}
}
