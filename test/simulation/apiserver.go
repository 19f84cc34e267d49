package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/journalet/journalet/runtime/source/manifest"
)

// startAPIServer adds an API server with its objects.
func (s *sim) startAPIServer() {
	s.api = newAPIServer(s)
	for _, name := range planObjects {
		s.world.files.set(ofAPIServer + name)
	}
}

// podName is the namespace and name of an object.
type podName = types.NamespacedName

// apiServer is the API server of a plan: its objects, and what watches are shown of them. An object that is stored is
// never changed, but replaced.
type apiServer struct {
	sim   *sim
	noise *rand.Rand
	// version is the version of the last change. history are the changes after base, oldest first: what the server had
	// when it forgot the changes before compacted.
	version, compacted int64
	history            []change
	base               []any
	// watchers are the coroutines that wait for the next change.
	watchers []*proc

	pods   map[podName]*corev1.Pod
	node   *corev1.Node
	lease  *coordinationv1.Lease
	csi    *storagev1.CSINode
	events map[podName]*corev1.Event
	// closed are the namespaces that are being deleted.
	closed map[string]bool
	uids   int
	// cursor is the agent's cursor of events, renewed when its Lease was renewed, in uptime. Both are on the node's side,
	// and survive a run of the agent.
	cursor  uint64
	saved   bool
	renewed time.Duration
	faults  apiFaults
	// unreadable is the pod whose object is damaged, empty for none.
	unreadable types.UID
	books      apiBooks
	// claims are the ResourceClaims. claimsOf are the claims of each pod that was bound, by UID.
	claims   map[podName]*claim
	claimsOf map[string][]usedClaim
	attacher *attacher
}

// change is one change of an object that watches show.
type change struct {
	version int64
	kind    watch.EventType
	pod     *corev1.Pod
	node    *corev1.Node
}

func newAPIServer(s *sim) *apiServer {
	return &apiServer{sim: s, noise: stream(s.seed, "API server"), pods: map[podName]*corev1.Pod{},
		events: map[podName]*corev1.Event{}, closed: map[string]bool{}, books: newAPIBooks(),
		claims: map[podName]*claim{}, claimsOf: map[string][]usedClaim{}, attacher: newAttacher()}
}

var (
	claimsResource = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
	podsResource   = schema.GroupResource{Resource: "pods"}
	nodesResource  = schema.GroupResource{Resource: "nodes"}
	leaseResource  = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	csiResource    = schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}
	eventResource  = schema.GroupResource{Resource: "events"}
)

func nameOf(p *corev1.Pod) podName { return podName{Namespace: p.Namespace, Name: p.Name} }

// now returns the time that the API server writes, which may lie.
func (a *apiServer) now() metav1.Time {
	return metav1.NewTime(a.sim.clock.Now().Add(a.faults.skew).Truncate(time.Second))
}

func (a *apiServer) next() string {
	a.version++
	return strconv.FormatInt(a.version, 10)
}

func (a *apiServer) newUID(kind string) types.UID {
	a.uids++
	return types.UID(fmt.Sprintf("%s-%d", kind, a.uids))
}

func (a *apiServer) changed(c change) {
	c.version = a.version
	a.history = append(a.history, c)
	for _, p := range a.watchers {
		p.interrupt()
	}
	a.watchers = nil
}

// isBound reports whether a pod is one of this node. Watches show no others.
func isBound(p *corev1.Pod) bool { return p.Spec.NodeName == nodeName }

// put stores a pod.
func (a *apiServer) put(p *corev1.Pod) *corev1.Pod {
	was := a.pods[nameOf(p)]
	p.ResourceVersion = a.next()
	a.pods[nameOf(p)] = p
	if was != nil && hasEnded(p) && !hasEnded(was) {
		a.unreserve(string(p.UID))
	}
	kind := watch.Modified
	if was == nil || !isBound(was) {
		kind = watch.Added
	}
	if isBound(p) {
		a.books.stored(a.sim, p)
		a.changed(change{kind: kind, pod: p})
	}
	return p
}

// remove removes a pod.
func (a *apiServer) remove(p *corev1.Pod) {
	delete(a.pods, nameOf(p))
	if !hasEnded(p) {
		a.unreserve(string(p.UID))
	}
	gone := p.DeepCopy()
	gone.ResourceVersion = a.next()
	if isBound(p) {
		a.changed(change{kind: watch.Deleted, pod: gone})
	}
}

// learn has the judge know the manifest of a pod, which the node reads later.
func (a *apiServer) learn(p *corev1.Pod) {
	if !isBound(p) || manifest.IsMirror(p) {
		return
	}
	if parsed, err := manifest.FromAPI(p); err == nil {
		a.sim.manifests.put([]manifest.Parsed{parsed})
		a.sim.tenants.learned(string(p.UID), parsed.Digest, len(parsed.Canonical))
	}
}

func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// create is a POST of a pod.
func (a *apiServer) create(p *corev1.Pod, kind string) (*corev1.Pod, error) {
	switch {
	case a.pods[nameOf(p)] != nil:
		return nil, apierrors.NewAlreadyExists(podsResource, p.Name)
	case a.closed[p.Namespace]:
		return nil, apierrors.NewForbidden(podsResource, p.Name, fmt.Errorf("the namespace is being deleted"))
	}
	next := p.DeepCopy()
	next.UID, next.CreationTimestamp, next.Generation = a.newUID(kind), a.now(), 1
	next.Status.Phase = corev1.PodPending
	a.learn(next)
	return a.put(next), nil
}

// createMirror is a POST of a node: a mirror pod, owned by the Node that there is.
func (a *apiServer) createMirror(p *corev1.Pod) (*corev1.Pod, error) {
	owners := p.OwnerReferences
	if !manifest.IsMirror(p) || a.node == nil || len(owners) != 1 || owners[0].UID != a.node.UID {
		return nil, apierrors.NewForbidden(podsResource, p.Name, fmt.Errorf("a node creates its own mirror pods only"))
	}
	return a.create(p, "mirror")
}

// update replaces a pod's manifest by what change makes of it, if there is such a pod.
func (a *apiServer) update(n podName, change func(*corev1.Pod)) {
	p := a.pods[n]
	if p == nil {
		return
	}
	next := p.DeepCopy()
	change(next)
	a.learn(next)
	a.put(next)
}

// deletePod is a DELETE of a pod. A grace period below 0 means the grace period of its manifest, an empty UID any pod.
func (a *apiServer) deletePod(n podName, uid types.UID, grace int64) error {
	p := a.pods[n]
	switch {
	case p == nil:
		return apierrors.NewNotFound(podsResource, n.Name)
	case uid != "" && p.UID != uid:
		return apierrors.NewConflict(podsResource, n.Name, fmt.Errorf("the UID is %s, not %s", p.UID, uid))
	case hasEnded(p) || p.Spec.NodeName == "":
		grace = 0
	case grace < 0:
		grace = 30
		if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
			grace = *g
		}
	}
	if grace == 0 && len(p.Finalizers) == 0 {
		a.remove(p)
		return nil
	}
	if p.DeletionTimestamp != nil && grace >= *p.DeletionGracePeriodSeconds {
		return nil
	}
	next := p.DeepCopy()
	at := metav1.NewTime(a.now().Add(time.Duration(min(grace, math.MaxInt32)) * time.Second))
	if next.DeletionTimestamp == nil {
		next.Generation++
		a.sim.later(between(a.noise, time.Second, time.Minute), func() { a.finalize(n, p.UID) })
	}
	next.DeletionTimestamp, next.DeletionGracePeriodSeconds = &at, &grace
	a.learn(next)
	a.put(next)
	return nil
}

// finalize removes a pod's finalizers, as their controllers do.
func (a *apiServer) finalize(n podName, uid types.UID) {
	p := a.pods[n]
	if p == nil || p.UID != uid || len(p.Finalizers) == 0 {
		return
	}
	next := p.DeepCopy()
	next.Finalizers = nil
	if *p.DeletionGracePeriodSeconds == 0 {
		a.remove(next)
		return
	}
	a.put(next)
}

// versionOf returns the version of a pod as put has counted it.
func versionOf(p *corev1.Pod) int64 {
	v, _ := strconv.ParseInt(p.ResourceVersion, 10, 64) // next has formatted it
	return v
}

// patchStatus is a PATCH of a pod's status, with a strategic merge.
func (a *apiServer) patchStatus(n podName, patch []byte, sent patchSent) (*corev1.Pod, error) {
	p := a.pods[n]
	if p == nil {
		return nil, apierrors.NewNotFound(podsResource, n.Name)
	}
	var q struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(patch, &q); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if q.Metadata.UID != "" && q.Metadata.UID != p.UID {
		return nil, apierrors.NewConflict(podsResource, n.Name, fmt.Errorf("the UID is %s", p.UID))
	}
	is := corev1.Pod{Status: p.Status}
	var merged corev1.Pod
	if err := merge(is, map[string]any{"status": q.Status}, &merged); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := *p
	next.Status = merged.Status
	if text := a.books.patched(a.sim, p, &next, patch, sent); text != "" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, text, nil)
	}
	if hasEnded(&next) && !hasEnded(p) {
		a.sim.judge.claimsOfEnded(string(p.UID))
	}
	return a.put(&next), nil
}

// merge applies a strategic merge patch.
func merge[T any](is T, patch any, to *T) error {
	old, err := json.Marshal(is)
	if err != nil {
		return err
	}
	text, ok := patch.([]byte)
	if !ok {
		if text, err = json.Marshal(patch); err != nil {
			return err
		}
	}
	merged, err := strategicpatch.StrategicMergePatch(old, text, is)
	if err != nil {
		return err
	}
	return json.Unmarshal(merged, to)
}

// createEvent is a POST of an event.
func (a *apiServer) createEvent(e *corev1.Event) error {
	n := podName{Namespace: e.Namespace, Name: e.Name}
	switch {
	case a.events[n] != nil:
		return apierrors.NewAlreadyExists(eventResource, e.Name)
	case a.closed[e.Namespace]:
		return apierrors.NewForbidden(eventResource, e.Name, fmt.Errorf("the namespace is being deleted"))
	}
	a.events[n] = e
	a.books.event(a.sim, e)
	return nil
}

// patchEvent is a PATCH of an event, with a merge.
func (a *apiServer) patchEvent(n podName, patch []byte) error {
	e := a.events[n]
	if e == nil {
		return apierrors.NewNotFound(eventResource, n.Name)
	}
	next := e.DeepCopy()
	if err := json.Unmarshal(patch, next); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	a.events[n] = next
	a.books.event(a.sim, next)
	return nil
}

// names returns the names of the pods that match, sorted.
func (a *apiServer) names(match func(*corev1.Pod) bool) []podName {
	var all []podName
	for n, p := range a.pods {
		if match(p) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, compareNames)
	return all
}

// ofNode matches the pods of this node that are no mirror pods.
func ofNode(p *corev1.Pod) bool { return isBound(p) && !manifest.IsMirror(p) }

// closeNamespace deletes a namespace with its pods. It exists again when they are gone.
func (a *apiServer) closeNamespace(namespace string) {
	a.closed[namespace] = true
	for _, n := range a.names(func(p *corev1.Pod) bool { return p.Namespace == namespace }) {
		a.books.closed[string(a.pods[n].UID)] = true
		_ = a.deletePod(n, "", -1) // it exists
	}
	var again func()
	again = func() {
		if len(a.names(func(p *corev1.Pod) bool { return p.Namespace == namespace })) > 0 {
			a.sim.later(5*time.Second, again)
			return
		}
		maps.DeleteFunc(a.events, func(n podName, _ *corev1.Event) bool { return n.Namespace == namespace })
		delete(a.closed, namespace)
	}
	a.sim.later(5*time.Second, again)
}
