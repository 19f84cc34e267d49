package api

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// Pods are the newest objects of this node's pods, as the watch has shown them. Methods may be called concurrently. The
// objects are shared: they are only read. A watch may lag behind what the API server has.
type Pods struct {
	// changed is called for each change, with the lock held. onlyStatus: nothing of it concerns the node.
	changed func(uid types.UID, mirror, onlyStatus bool)

	node string // of the pods; empty: of any
	log  *slog.Logger
	// whole is called after each list, without the lock, with why it may lack pods; nil: it lacks none.
	whole func(error)

	mu     sync.Mutex
	byUID  map[types.UID]*corev1.Pod
	byName map[types.NamespacedName]types.UID
	listed bool // there was a list in this run
	// incomplete is why the last list may lack pods: it had an object whose UID could not even be read. Nil: it lacks
	// none.
	incomplete error
}

func newPods(node string, log *slog.Logger, changed func(uid types.UID, mirror, onlyStatus bool), whole func(error),
) *Pods {
	return &Pods{
		node: node, log: log, changed: changed, whole: whole, byUID: map[types.UID]*corev1.Pod{},
		byName: map[types.NamespacedName]types.UID{},
	}
}

// Get returns a pod, a mirror pod too; nil if the pod does not exist, or is not known yet.
func (p *Pods) Get(uid types.UID) *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byUID[uid]
}

// Named returns the pod of this name; nil if the pod does not exist, or is not known yet.
func (p *Pods) Named(namespace, name string) *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byUID[p.byName[types.NamespacedName{Namespace: namespace, Name: name}]]
}

// List returns the pods, or the mirror pods, in order of their UIDs.
func (p *Pods) List(mirrors bool) []*corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*corev1.Pod
	for _, pod := range p.byUID {
		if manifest.IsMirror(pod) == mirrors {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return all
}

// Listed reports whether there was a list in this run: the pods are all there were, unless it is Incomplete.
func (p *Pods) Listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed
}

// Incomplete returns why the last list may lack pods, with the remedy; nil: it lacks none.
func (p *Pods) Incomplete() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.incomplete
}

// set keeps a pod. Another one of its name is gone: the API server has one at a time. The caller holds p.mu.
func (p *Pods) set(pod *corev1.Pod) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if other := p.byName[name]; other != "" && other != pod.UID {
		p.drop(other)
	}
	old := p.byUID[pod.UID]
	if old != nil && client.Unreadable(pod) != "" {
		return // what was read of it stays
	}
	onlyStatus := onlyStatusDiffers(old, pod)
	p.byUID[pod.UID], p.byName[name] = pod, pod.UID
	p.changed(pod.UID, manifest.IsMirror(pod), onlyStatus)
}

// onlyStatusDiffers reports whether two objects of a pod are the same to the node. Our own writes of a status come back
// so, and cost nothing more.
func onlyStatusDiffers(old, now *corev1.Pod) bool {
	if old != nil && old.DeletionTimestamp != nil && terminal(old) != journaletv1.PodPhase_POD_PHASE_UNSPECIFIED {
		return true // it has ended for good: all that is left to learn is that it is gone
	}
	return old != nil && old.Generation == now.Generation && maps.Equal(old.Labels, now.Labels) &&
		maps.Equal(old.Annotations, now.Annotations) && old.DeletionTimestamp.Equal(now.DeletionTimestamp) &&
		ptr.Equal(old.DeletionGracePeriodSeconds, now.DeletionGracePeriodSeconds) &&
		terminal(old) == terminal(now) && equality.Semantic.DeepEqual(old.Spec, now.Spec)
}

func (p *Pods) drop(uid types.UID) {
	pod := p.byUID[uid]
	if pod == nil {
		return
	}
	delete(p.byUID, uid)
	if name := (types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}); p.byName[name] == uid {
		delete(p.byName, name)
	}
	p.changed(uid, manifest.IsMirror(pod), false)
}

// store is what the Reflector writes to.
type store struct{ *Pods }

var _ cache.ReflectorStore = store{}

// Add keeps a pod that is new to the watch.
func (s store) Add(obj any) error { return s.Update(obj) }

// Update keeps a pod that has changed.
func (s store) Update(obj any) error {
	pod, err := s.ours(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(pod)
	return nil
}

// Delete drops a pod that is gone.
func (s store) Delete(obj any) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("the API server sent a %T", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUID[pod.UID] == nil && pod.UID != "" {
		s.changed(pod.UID, manifest.IsMirror(pod), false) // an incomplete list did not show it, but the journal may have it
	}
	s.drop(pod.UID)
	return nil
}

// Replace keeps the pods of a list, and drops all others if it is complete.
func (s store) Replace(list []any, _ string) error {
	all := map[types.UID]*corev1.Pod{}
	var first error
	nameless, why := 0, ""
	for _, obj := range list {
		if pod, ok := obj.(*corev1.Pod); ok && pod.UID == "" && client.Unreadable(pod) != "" {
			nameless, why = nameless+1, cmp.Or(why, client.Unreadable(pod))
			continue
		}
		pod, err := s.ours(obj)
		if err == nil {
			all[pod.UID] = pod
		}
		first = cmp.Or(first, err)
	}
	if first != nil {
		s.log.Error("pods of the API server's list are left out", "left out", len(list)-len(all), "first", first)
	}
	var incomplete error
	if nameless > 0 {
		incomplete = errIncomplete(nameless, why, s.node)
		s.log.Error("no pod is removed for not being in a list", "error", incomplete)
	}
	s.replace(all, incomplete)
	s.whole(incomplete)
	return nil
}

// errIncomplete returns why a list may lack pods.
func errIncomplete(nameless int, why, node string) error {
	return fmt.Errorf("the API server's list of the pods of this node has objects that cannot be read, nor their names "+
		"(%d, the first: %s): a pod that was deleted meanwhile runs on, and one of these does not start. Find them with "+
		"`kubectl get pods -A --field-selector spec.nodeName=%s -o yaml`, and what changes answers between this node and "+
		"the API server", nameless, why, node)
}

// replace keeps the pods of a list, and drops all others unless it may lack some.
func (s store) replace(all map[types.UID]*corev1.Pod, incomplete error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incomplete = incomplete
	for _, uid := range slices.Sorted(maps.Keys(s.byUID)) { // one seed gives one journal
		if all[uid] == nil && incomplete == nil {
			s.drop(uid)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		s.set(all[uid])
	}
	s.listed = true
	s.changed("", false, false) // there was a list, whatever it has
}

// ours returns a pod that this node may run. An API server sends no other, unless it or what is before it is broken:
// its names become paths.
func (s store) ours(obj any) (*corev1.Pod, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("the API server sent a %T", obj)
	}
	if pod.Kind != kindReduced { // the client has it reduced; from anywhere else it may be another's
		pod = pod.DeepCopy()
		Reduce(pod)
	}
	if client.Unreadable(pod) != "" {
		pod.Spec.NodeName = s.node
	}
	err := manifest.CheckNames(pod)
	if err == nil {
		err = messages.CheckID(string(pod.UID))
	}
	if err == nil && s.node != "" && pod.Spec.NodeName != s.node {
		err = fmt.Errorf("it is bound to node %.64q", pod.Spec.NodeName)
	}
	if err != nil {
		return nil, fmt.Errorf("the API server sent pod %.64q in namespace %.64q: %w", pod.Name, pod.Namespace, err)
	}
	return pod, nil
}

// Resync does nothing: no period is set.
func (s store) Resync() error { return nil }
