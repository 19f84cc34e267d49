package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/manifests"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

// realListWatch lists and watches as the agent does.
func realListWatch(t *testing.T, url string) cache.ListerWatcher {
	t.Helper()
	c, err := client.New(client.Options{Config: &rest.Config{Host: url}, ContentType: "application/json",
		Main: client.Limits{QPS: -1}})
	must.OK(t, err)
	lw, err := client.ListWatch(c, client.Pods.With(Reduce), "", "spec.nodeName=n1")
	must.OK(t, err)
	return lw
}

func TestManyLargePodsKeepOutNoOther(t *testing.T) {
	for _, noWatchList := range []bool{false, true} {
		s := fakeapi.New()
		s.NoWatchList = noWatchList
		large := map[string]bool{}
		for i := range 52 {
			pod := testPod(fmt.Sprint("large-", i))
			pod.Spec.Containers[0].Args = []string{strings.Repeat("x", 1_350_000)}
			large[s.Create("pods", pod)] = true
		}
		url := s.Start(t)
		r := start(t, url, &journaletv1.SourceState{Synced: true, Files: map[string]*journaletv1.ManifestFile{
			"gone": {Path: "gone", Pods: []*journaletv1.PodRef{{Uid: "gone"}}},
		}}, Options{ListWatch: realListWatch(t, url)})
		removed := false
		for len(large) > 0 || !removed {
			for _, f := range (<-r.facts).GetChanged() {
				removed = removed || f.GetPath() == "gone" && len(f.GetPods()) == 0
				if len(f.GetPods()) == 1 {
					delete(large, f.GetPath())
				}
			}
		}
		uid := s.Create("pods", testPod("new"))
		if a := r.one(t, uid); a.GetDeleted() {
			t.Errorf("the new pod is %v", a)
		}
		s.Delete("pods", "default", "new", 5)
		if a := r.one(t, uid); !a.GetDeleted() {
			t.Errorf("the new pod is %v", a)
		}
		r.stop()
	}
}

// shelf is a store of manifests.
type shelf struct {
	whole map[string]string
	most  int // manifests that one call has stored
	err   error
}

func (s *shelf) store(_ context.Context, manifests iter.Seq2[string, []byte]) error {
	if s.err != nil {
		return s.err
	}
	n := 0
	for digest, data := range manifests {
		s.whole[digest] = string(data)
		n++
	}
	s.most = max(s.most, n)
	return nil
}

// largePod is a pod as the API server sends it, with arguments of 1 MB.
func largePod(name string) *corev1.Pod {
	pod := uidPod(name)
	pod.Spec.Containers[0].Args = []string{name, strings.Repeat("x", 1_000_000)}
	pod.Annotations = map[string]string{storedAs: "sha256:of-another"}
	return pod
}

func TestLargeTextsAreStoredAsTheyArriveAndDoNotStay(t *testing.T) {
	s := &shelf{whole: map[string]string{}}
	primed := map[string]bool{}
	r := idle(nil)
	r.opts.Store, r.opts.Prime = s.store, func(digest string, pod *corev1.Pod) {
		primed[digest] = len(pod.Spec.Containers[0].Args) == 2
	}
	arrives := func(name, value string) {
		pod := largePod(name)
		pod.Labels = map[string]string{"l": value}
		r.Reduce(t.Context(), pod)
		must.OK(t, r.Store().Update(pod))
	}
	must.OK(t, r.Store().Replace(nil, "1"))
	arrives("a", "1")
	if kept := r.Pods().Get("a").Spec.Size(); kept > 1000 || len(s.whole) != 1 {
		t.Fatalf("%d bytes of its spec are kept, %d manifests are stored", kept, len(s.whole))
	}
	_, all := r.sent(t)
	digest := all["a"].GetDigest()
	if whole := s.whole[digest]; !strings.Contains(whole, "xxxx") || !primed[digest] ||
		manifest.Digest([]byte(whole)) != digest {
		t.Errorf("the fact names %q, whose manifest has %d bytes, primed %v", digest, len(s.whole[digest]), primed)
	}
	clear(s.whole)
	arrives("a", "1") // its status
	if m, all := r.sent(t); len(all) != 0 || len(s.whole) != 0 {
		t.Errorf("sent %v again, stored %d", m, len(s.whole))
	}
	arrives("a", "2")
	if _, all := r.sent(t); all["a"].GetDigest() == digest || len(s.whole) != 1 {
		t.Errorf("sent %v after a change, stored %d", all["a"], len(s.whole))
	}
}

func TestALargePodWithoutLargeTextsIsInMemoryOnce(t *testing.T) {
	s, kept := &shelf{whole: map[string]string{}}, manifests.New(nil)
	r := idle(nil)
	r.opts.Store, r.opts.Prime, r.opts.Newest = s.store, kept.Add, kept.Newest
	must.OK(t, r.Store().Replace(nil, "1"))
	var first *corev1.Toleration
	for i := range 3 { // its status changes
		pod := uidPod("a")
		for i := range 1000 {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("%050d", i)})
		}
		r.Reduce(t.Context(), pod)
		must.OK(t, r.Store().Update(pod))
		if i == 0 {
			first = &kept.Newest("a").Spec.Tolerations[0]
		}
		if &r.Pods().Get("a").Spec.Tolerations[0] != first || &kept.Newest("a").Spec.Tolerations[0] != first {
			t.Fatalf("update %d is in memory beside what actors have", i)
		}
	}
	if _, all := r.sent(t); len(all) != 1 || s.whole[all["a"].GetDigest()] == "" {
		t.Errorf("sent %v, stored %d", all, len(s.whole))
	}
}

func TestLargePodIsStoredWithItsFactIfNotBefore(t *testing.T) {
	s := &shelf{whole: map[string]string{}, err: errors.New("the disk is full")}
	r := idle(&journaletv1.SourceState{Synced: true})
	r.opts.Store = s.store
	r.sender.Store = s.store
	for i := range 20 {
		pod := largePod(fmt.Sprint("p", i))
		r.Reduce(t.Context(), pod)
		must.OK(t, r.Store().Update(pod))
	}
	must.OK(t, r.Store().Replace(all(r.Pods().List(false)), "1"))
	if err := r.HandOver(t.Context()); err == nil {
		t.Fatal("a full disk is no error")
	}
	s.err = nil
	m, sent := r.sent(t)
	if !m.GetSynced() || len(sent) != 20 || len(s.whole) != 20 || s.most > 1+maxSendBytes/1_000_000 {
		t.Errorf("synced %v, %d sent, %d stored, %d of them at once", m.GetSynced(), len(sent), len(s.whole), s.most)
	}
	for uid, p := range sent {
		if !strings.Contains(s.whole[p.GetDigest()], uid) {
			t.Errorf("%s names %q, which is not stored", uid, p.GetDigest())
		}
	}
}

func TestLargePodOfAnEarlierVersionKeepsItsDigest(t *testing.T) {
	pod := largePod("a")
	pod.Spec.Containers[0].Args[0] = "<"
	Reduce(pod)
	parsed, err := manifest.FromAPI(pod)
	must.OK(t, err)
	r := idle(&journaletv1.SourceState{Synced: true, Files: map[string]*journaletv1.ManifestFile{
		"a": {Path: "a", Pods: []*journaletv1.PodRef{{Uid: "a", Namespace: "default", Name: "a",
			Digest: parsed.Escaped().Digest, Api: &journaletv1.ApiPod{}}}},
	}})
	r.Driver.Reduce(t.Context(), pod)
	must.OK(t, r.Store().Replace([]any{pod}, "1"))
	if m, all := r.sent(t); len(all) != 0 {
		t.Errorf("sent %v of a pod that is recorded as it is", m)
	}
}

func all(pods []*corev1.Pod) (list []any) {
	for _, p := range pods {
		list = append(list, p)
	}
	return list
}

// unreadable is a pod as package client shows it that could not read it.
func unreadable(uid string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{"journalet.io/unreadable": "it has 4000000 bytes, and may have 3145728"}
	if uid != "" {
		pod.Name, pod.Namespace, pod.UID, pod.ResourceVersion = uid, "default", types.UID(uid), "1"
	}
	return pod
}

// sent hands over and returns what is new, by UID.
func (r *run) sent(t *testing.T) (*journaletv1.ManifestsRead, map[string]*journaletv1.PodRef) {
	t.Helper()
	must.OK(t, r.HandOver(t.Context()))
	all, whole := map[string]*journaletv1.PodRef{}, &journaletv1.ManifestsRead{}
	for len(r.facts) > 0 {
		m := <-r.facts
		whole.Synced = whole.GetSynced() || m.GetSynced()
		for _, f := range m.GetChanged() {
			all[f.GetPath()] = nil
			for _, p := range f.GetPods() {
				all[f.GetPath()] = p
			}
		}
	}
	return whole, all
}

// idle returns a driver without a Reflector.
func idle(seed *journaletv1.SourceState) *run {
	r := &run{facts: make(chan *journaletv1.ManifestsRead, 1000)}
	r.Driver = New(Options{ListWatch: &cache.ListWatch{}, NodeName: "n1",
		Store: func(context.Context, iter.Seq2[string, []byte]) error { return nil },
		Sink:  func(_ context.Context, m *journaletv1.ManifestsRead) error { r.facts <- m; return nil }})
	r.Seed(seed)
	return r
}

func uidPod(name string) *corev1.Pod {
	pod := testPod(name)
	pod.UID = types.UID(name)
	return pod
}

func TestAPodThatCannotBeReadIsRejectedOrStaysAsItWas(t *testing.T) {
	r := idle(&journaletv1.SourceState{Synced: true, Files: map[string]*journaletv1.ManifestFile{
		"known": {Path: "known", Pods: []*journaletv1.PodRef{{
			Uid: "known", Namespace: "default", Name: "known", Digest: "sha256:d", Api: &journaletv1.ApiPod{Generation: 3},
		}}},
		"gone": {Path: "gone", Pods: []*journaletv1.PodRef{{Uid: "gone"}}},
	}})
	must.OK(t, r.Store().Replace([]any{unreadable("known"), unreadable("new"), uidPod("a")}, "1"))
	m, all := r.sent(t)
	if _, changed := all["known"]; changed || all["a"] == nil || len(all) != 3 || all["gone"] != nil {
		t.Errorf("sent %v, %v", m, all)
	}
	if why := all["new"].GetApi().GetUnsupported(); !strings.Contains(why, "4000000 bytes") {
		t.Errorf("the new one is rejected for %q", why)
	}
	must.OK(t, r.Store().Update(unreadable("a")))
	if kept := r.Pods().Get("a"); len(kept.Spec.Containers) != 1 {
		t.Errorf("what was read is replaced by %v", kept)
	}
	must.OK(t, r.Store().Delete(unreadable("new")))
	if _, all = r.sent(t); len(all) != 1 || all["new"] != nil {
		t.Errorf("after its deletion: %v", all)
	}
}

// A defect of the agent that one pod brings out keeps no other pod from the node.
func TestAPodOnWhichTheAgentFailsStopsNoOther(t *testing.T) {
	r := idle(&journaletv1.SourceState{Synced: true, Files: map[string]*journaletv1.ManifestFile{
		"known": {Path: "known", Pods: []*journaletv1.PodRef{{
			Uid: "known", Namespace: "default", Name: "known", Digest: "sha256:d", Api: &journaletv1.ApiPod{Generation: 3},
		}}},
	}})
	fails, refused := map[types.UID]bool{"small": true, "large": true, "known": true}, map[string]string{}
	r.adding["known"] = true
	r.opts.Allocated = func(pod *corev1.Pod) *corev1.Pod {
		if fails[pod.UID] && isWhole(pod) {
			panic("it says " + pod.Name)
		}
		return nil
	}
	r.opts.Refused = func(pod *journaletv1.PodRef, why string) { refused[pod.GetUid()] = why }
	known := uidPod("known")
	known.Generation = 4
	large := largePod("large")
	r.Reduce(t.Context(), large)
	must.OK(t, r.Store().Replace([]any{uidPod("small"), large, known, uidPod("b")}, "1"))
	_, all := r.sent(t)
	for _, uid := range []string{"small", "large"} {
		if why := all[uid].GetApi().GetUnsupported(); why != manifest.Defect {
			t.Errorf("%s is refused for %q", uid, why)
		}
	}
	if all["b"].GetDigest() == "" || all["b"].GetApi().GetUnsupported() != "" || refused["known"] != manifest.Defect {
		t.Errorf("another pod is sent as %v; refused updates: %v", all["b"], refused)
	}
	if ref, changed := all["known"]; changed {
		t.Errorf("the pod that runs is sent as %v", ref)
	}
}

// isWhole reports whether more than the names of a pod are there.
func isWhole(pod *corev1.Pod) bool { return len(pod.Spec.Containers) > 0 }

func TestNothingIsRemovedOnTheGroundOfAnIncompleteList(t *testing.T) {
	r := idle(&journaletv1.SourceState{Synced: true, Files: map[string]*journaletv1.ManifestFile{
		"known": {Path: "known", Pods: []*journaletv1.PodRef{{Uid: "known"}}},
	}})
	must.OK(t, r.Store().Replace([]any{unreadable(""), uidPod("a")}, "1"))
	m, all := r.sent(t)
	if len(all) != 1 || all["a"] == nil || r.Complete() || r.Ready() == nil {
		t.Errorf("sent %v, %v; complete %v, ready %v", m, all, r.Complete(), r.Ready())
	}
	must.OK(t, r.Store().Delete(uidPod("known"))) // the watch shows it
	if _, all = r.sent(t); len(all) != 1 || all["known"] != nil {
		t.Errorf("after the deletion: %v", all)
	}
	must.OK(t, r.Store().Replace([]any{uidPod("b")}, "2"))
	if _, all = r.sent(t); len(all) != 2 || all["b"] == nil || !r.Complete() || r.Ready() != nil {
		t.Errorf("after a complete list: %v, complete %v, ready %v", all, r.Complete(), r.Ready())
	}
}

func TestAnIncompleteListIsReportedUntilTheNextCompleteOne(t *testing.T) {
	var reported []error
	r := idle(nil)
	r.Pods().whole = func(err error) {
		if err != nil && r.Ready() == nil {
			t.Error("reported and ready")
		}
		reported = append(reported, err)
	}
	for _, list := range [][]any{{uidPod("a")}, {unreadable(""), unreadable("")}, {unreadable("b")}} {
		must.OK(t, r.Store().Replace(list, "1"))
	}
	if len(reported) != 3 || reported[0] != nil || reported[2] != nil {
		t.Fatalf("reported %v", reported)
	}
	for _, part := range []string{
		"pods of this node", "(2, the first: it has 4000000 bytes", "kubectl get pods -A --field-selector spec.nodeName=n1",
	} {
		if !strings.Contains(reported[1].Error(), part) {
			t.Errorf("%q lacks %q", reported[1], part)
		}
	}
}

func TestAPodThatHasEndedKeepsItsManifestButNotInMemory(t *testing.T) {
	r := idle(nil)
	pod := uidPod("a")
	must.OK(t, r.Store().Replace([]any{pod.DeepCopy()}, "1"))
	_, before := r.sent(t)
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Message: "m"}
	pod.Generation = 2
	must.OK(t, r.Store().Update(pod.DeepCopy()))
	_, after := r.sent(t)
	kept := r.Pods().Get("a")
	if a := after["a"]; a.GetDigest() != before["a"].GetDigest() || a.GetApi().GetGeneration() != 2 ||
		a.GetApi().GetTerminalPhase() != journaletv1.PodPhase_POD_PHASE_FAILED {
		t.Errorf("sent %v after %v", a, before["a"])
	}
	if len(kept.Spec.Containers) != 0 || kept.Status.Message != "m" || kept.Name != "a" {
		t.Errorf("kept %v", kept)
	}
	mirror := uidPod("m")
	mirror.Annotations = map[string]string{manifest.ConfigMirrorAnnotation: "u", "x": strings.Repeat("x", 1000)}
	must.OK(t, r.Store().Update(mirror))
	if k := r.Pods().Get("m"); len(k.Annotations) != 1 || len(k.Spec.Containers) > 0 || k.Spec.NodeName != "n1" {
		t.Errorf("kept %v", k)
	}
}

func TestAPodBeyondABoundIsRejectedByItsNamesAndCanBeDeleted(t *testing.T) {
	r := idle(nil)
	large := uidPod("large")
	large.Annotations = map[string]string{beyondBounds: "nothing", "a": "b"}
	large.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: strings.Repeat("s", 1_100_000)},
	}}}
	must.OK(t, r.Store().Replace([]any{large.DeepCopy()}, "1"))
	_, all := r.sent(t)
	const why = "spec.volumes[0].secret.secretName of 1100000 bytes, more than 253"
	if a := all["large"]; a.GetApi().GetUnsupported() != why || a.GetNamespace() != "default" {
		t.Errorf("sent %v", all)
	}
	kept := r.Pods().Get("large")
	if len(kept.Spec.Volumes)+len(kept.Spec.Containers) > 0 || kept.Spec.NodeName != "n1" {
		t.Errorf("kept %v", kept)
	}
	now := metav1.Now()
	large.DeletionTimestamp, large.DeletionGracePeriodSeconds = &now, new(int64)
	*large.DeletionGracePeriodSeconds = 7
	must.OK(t, r.Store().Update(large.DeepCopy()))
	if _, all = r.sent(t); !all["large"].GetApi().GetDeleted() || all["large"].GetApi().GetDeletionGraceSeconds() != 7 {
		t.Errorf("after its deletion: %v", all)
	}
	large.Status.Phase = corev1.PodFailed
	must.OK(t, r.Store().Update(large.DeepCopy()))
	if _, all = r.sent(t); all["large"].GetApi().GetTerminalPhase() != journaletv1.PodPhase_POD_PHASE_FAILED {
		t.Errorf("after its phase was written: %v; its object is deleted only then", all)
	}
	must.OK(t, r.Store().Delete(large))
	if _, all = r.sent(t); len(all) != 1 || all["large"] != nil {
		t.Errorf("after it went: %v", all)
	}
}

func TestAnUpdateBeyondABoundChangesOnlyTheDeletion(t *testing.T) {
	r := idle(nil)
	pod := uidPod("a")
	must.OK(t, r.Store().Replace([]any{pod.DeepCopy()}, "1"))
	_, all := r.sent(t)
	before := all["a"]
	for i := range 101 {
		e := corev1.EphemeralContainer{}
		e.Name = fmt.Sprint("e", i)
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, e)
	}
	pod.Generation = 2
	must.OK(t, r.Store().Update(pod.DeepCopy()))
	if _, all = r.sent(t); len(all) != 0 {
		t.Errorf("the update is sent: %v", all)
	}
	now, grace := metav1.Now(), int64(5)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	must.OK(t, r.Store().Update(pod.DeepCopy()))
	_, all = r.sent(t)
	if a := all["a"]; a.GetDigest() != before.GetDigest() || a.GetApi().GetUnsupported() != "" ||
		!a.GetApi().GetDeleted() || a.GetApi().GetDeletionGraceSeconds() != 5 {
		t.Errorf("sent %v after %v", a, before)
	}
}

func TestThePodOfAnotherIsNotReduced(t *testing.T) {
	r := idle(nil)
	pod := uidPod("a")
	pod.Status.Phase = corev1.PodFailed
	before := pod.DeepCopy()
	must.OK(t, r.Store().Replace([]any{pod}, "1"))
	if !equality.Semantic.DeepEqual(pod, before) {
		t.Errorf("it is %v", pod)
	}
}

func TestAPodOfPlainSizeKeepsItsManifest(t *testing.T) {
	r := idle(nil)
	pod := uidPod("a")
	pod.Annotations[beyondBounds] = "yes"
	pod.Spec.Containers[0].Args = []string{strings.Repeat("x", 1<<20)}
	must.OK(t, r.Store().Replace([]any{pod}, "1"))
	if _, all := r.sent(t); all["a"].GetApi().GetUnsupported() != "" || len(r.Pods().Get("a").Spec.Containers) != 1 {
		t.Errorf("sent %v", all)
	}
}

// What only the control plane reads rejects no pod; what the node would have to carry out does.
func TestFieldsOfTheControlPlaneRejectNoPod(t *testing.T) {
	r := idle(nil)
	grouped, mapped := uidPod("grouped"), uidPod("mapped")
	grouped.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
	grouped.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: "example.com/responder"}}
	mapped.Spec.HostNetwork, mapped.Spec.HostUsers = true, new(false)
	must.OK(t, r.Store().Replace([]any{grouped, mapped}, "1"))
	_, all := r.sent(t)
	if why := all["grouped"].GetApi().GetUnsupported(); all["grouped"] == nil || why != "" {
		t.Errorf("it is rejected for %q", why)
	}
	const want = "the node feature UserNamespacesHostNetworkSupport, which the pod requires"
	if why := all["mapped"].GetApi().GetUnsupported(); why != want {
		t.Errorf("it is rejected for %q, want %q", why, want)
	}
}

func TestFirstReadShowsWhetherAnUnsupportedPodRuns(t *testing.T) {
	r := idle(nil)
	running := corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}
	pod := func(name string, state corev1.ContainerState, v corev1.VolumeSource) *corev1.Pod {
		p := uidPod(name)
		p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: v}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: state}}
		return p
	}
	iscsi := corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.1", IQN: "iqn.2026-11.example:a"}}
	empty := corev1.VolumeSource{EmptyDir: new(corev1.EmptyDirVolumeSource)}
	runs := pod("runs", running, iscsi)
	must.OK(t, r.Store().Replace([]any{runs.DeepCopy(), pod("ended", corev1.ContainerState{}, iscsi),
		pod("supported", running, empty)}, "1"))
	_, all := r.sent(t)
	for name, want := range map[string]bool{"runs": true, "ended": false, "supported": false} {
		if got := all[name].GetApi(); got == nil || got.GetShownRunning() != want {
			t.Errorf("pod %s: %v", name, got)
		}
	}
	runs.Status.ContainerStatuses, runs.Generation = nil, 2
	must.OK(t, r.Store().Update(runs))
	if _, all = r.sent(t); !all["runs"].GetApi().GetShownRunning() {
		t.Errorf("after an update: %v", all)
	}
}
