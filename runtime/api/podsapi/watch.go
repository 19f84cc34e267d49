package podsapi

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/plugins/clients"
)

const (
	// maxWatches bounds the watchers of all clients, maxEvents (kubelet: the same) and maxEventBytes the events that wait
	// for one of them. A single larger event may wait, too.
	maxWatches    = 64
	maxEvents     = 100
	maxEventBytes = 4 << 20
	// cutPause is how long a watcher that was dropped may take to read that it was.
	cutPause = 5 * time.Second
	// patience bounds the wait for a pod's actor, brief while some actor hangs. A pod that could not be read is read
	// again after retryPause.
	patience   = 2 * time.Second
	brief      = 200 * time.Millisecond
	retryPause = time.Second
)

// hub feeds all watchers.
type hub struct {
	pod     func(context.Context, string) (*corev1.Pod, error)
	uids    func() []string
	dropped func()
	// cutPause and retryPause are the constants of these names, but in tests.
	cutPause, retryPause time.Duration

	// watching is the number of watchers.
	watching atomic.Int32
	wake     chan struct{}

	// reading is held from a reading of a pod until watchers have it: readings have one order. It guards pods: what
	// watchers have of each pod, but for the pods that one of them is still to be sent.
	reading sync.Mutex
	pods    map[string]shown

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	// marked are the UIDs of pods that may have changed.
	marked map[string]struct{}
}

// shown is what watchers have of a pod.
type shown struct {
	namespace, name string
	digest          [sha256.Size]byte
}

// event is a change of a pod.
type event struct {
	kind api.EventType
	pod  []byte
}

// watcher is one watch. Its fields belong to hub.mu, but for events, waiting and dropped.
type watcher struct {
	conn *clients.Conn
	// events wait to be sent, waiting is the sum of their bytes. The channel is closed when the watcher is dropped.
	events  chan event
	waiting atomic.Int64
	dropped atomic.Bool
	cut     *time.Timer
	// unsent are the pods that the watcher is to be sent first; synced means that it was sent all that could be read.
	unsent map[string]struct{}
	synced bool
}

func newHub(pod func(context.Context, string) (*corev1.Pod, error), uids func() []string, dropped func()) *hub {
	return &hub{
		pod: pod, uids: uids, dropped: dropped, cutPause: cutPause, retryPause: retryPause,
		wake: make(chan struct{}, 1), pods: map[string]shown{}, watchers: map[*watcher]struct{}{},
		marked: map[string]struct{}{},
	}
}

// stored marks the pods that a stored record may have changed: only the record's author and its audience have another
// state after it. The Node and the runtime's name are a part of each status.
func (h *hub) stored(rec *journaletv1.Record) {
	if h.watching.Load() == 0 {
		return
	}
	author := messages.RefOf(rec.GetActor())
	concerned := []messages.Ref{author}
	for _, e := range messages.Events(rec) {
		audience, _ := messages.Audience(author, e)
		concerned = append(concerned, audience...)
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_PodForgotten:
			concerned = append(concerned, messages.Pod(k.PodForgotten.GetUid()))
		case *journaletv1.Event_NodeObserved, *journaletv1.Event_RuntimeHealthChanged:
			for _, uid := range h.uids() {
				concerned = append(concerned, messages.Pod(uid))
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ref := range concerned {
		if ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
			h.mark(ref.ID)
		}
	}
}

// mark marks a pod; h.mu is held.
func (h *hub) mark(uid string) {
	if len(h.watchers) == 0 {
		return
	}
	h.marked[uid] = struct{}{}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run reads marked pods until ctx ends.
func (h *hub) run(ctx context.Context) {
	failed := map[string]struct{}{}
	var again <-chan time.Time
	for wait := patience; ; {
		batch := map[string]struct{}{}
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		case <-again:
			batch, failed, again = failed, map[string]struct{}{}, nil
		}
		h.mu.Lock()
		maps.Copy(batch, h.marked)
		clear(h.marked)
		h.mu.Unlock()
		for _, uid := range slices.Sorted(maps.Keys(batch)) {
			delete(failed, uid)
			if _, err := h.read(ctx, uid, nil, wait); err != nil {
				failed[uid], wait = struct{}{}, brief
			}
		}
		switch {
		case len(failed) == 0:
			wait, again = patience, nil
		case again == nil:
			again = time.After(h.retryPause)
		}
	}
}

// read reads a pod and passes on what watchers do not have. sender is a watcher that sends the pod itself, as the first
// it has of the pod; nil: no watcher does. read returns the bytes for sender, nil if there is no such pod. After an
// error, which means that the pod does not answer, everything is as it was.
func (h *hub) read(ctx context.Context, uid string, sender *watcher, wait time.Duration) ([]byte, error) {
	h.reading.Lock()
	defer h.reading.Unlock()
	if h.watching.Load() == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	p, err := h.pod(ctx, uid)
	if err != nil {
		return nil, err
	}
	was, had := h.pods[uid]
	if p == nil {
		delete(h.pods, uid)
		if had {
			h.pass(uid, sender, nil, deleted(uid, was))
		} else {
			h.pass(uid, sender, nil, nil)
		}
		return nil, nil
	}
	b, err := encode(p)
	if err != nil {
		return nil, err
	}
	is := shown{p.Namespace, p.Name, sha256.Sum256(b)}
	h.pods[uid] = is
	switch {
	case !had:
		h.pass(uid, sender, b, &event{api.EventType_ADDED, b})
	case is.digest != was.digest:
		h.pass(uid, sender, b, &event{api.EventType_MODIFIED, b})
	default:
		h.pass(uid, sender, b, nil)
	}
	return b, nil
}

// deleted returns the event of a pod that is gone. KEP-4188: of it only the name, the namespace and the UID are sure.
func deleted(uid string, was shown) *event {
	b, _ := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ // three strings can be encoded
		Namespace: was.namespace, Name: was.name, UID: types.UID(uid),
	}}).Marshal()
	return &event{api.EventType_DELETED, b}
}

// pass passes a change of a pod to the watchers that have the pod, or know that it does not exist. Watchers that could
// not be sent the pod before get the pod as it is; nil: it does not exist. sender sends the pod itself.
func (h *hub) pass(uid string, sender *watcher, is []byte, change *event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		_, unsent := w.unsent[uid]
		switch {
		case unsent && w == sender:
			delete(w.unsent, uid)
		case unsent && w.synced:
			delete(w.unsent, uid)
			if is != nil {
				h.push(w, &event{api.EventType_ADDED, is})
			}
		case !unsent && change != nil:
			h.push(w, change)
		}
	}
}

// push queues an event for a watcher, or drops the watcher; h.mu is held.
func (h *hub) push(w *watcher, e *event) {
	if w.dropped.Load() {
		return
	}
	waiting := w.waiting.Add(int64(len(e.pod)))
	if len(w.events) < maxEvents && (waiting <= maxEventBytes || len(w.events) == 0) {
		w.events <- *e
		return
	}
	h.dropped()
	w.dropped.Store(true)
	close(w.events)
	w.cut = time.AfterFunc(h.cutPause, func() { w.conn.Close() })
}

// join adds a watcher, which is to be sent all pods that there are; nil: there are too many.
func (h *hub) join(c *clients.Conn) *watcher {
	h.reading.Lock() // no pod is passed on until it is known what is unsent
	defer h.reading.Unlock()
	w := &watcher{conn: c, events: make(chan event, maxEvents), unsent: map[string]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) >= maxWatches {
		return nil
	}
	h.watchers[w] = struct{}{}
	h.watching.Store(int32(len(h.watchers))) // what is stored from now on is marked
	for _, uid := range h.uids() {
		w.unsent[uid] = struct{}{}
	}
	for uid := range h.pods {
		w.unsent[uid] = struct{}{}
	}
	return w
}

// sent says that a watcher was sent all pods that could be read, and has the others read again.
func (h *hub) sent(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.synced = true
	for uid := range w.unsent {
		h.mark(uid)
	}
}

// leave removes a watcher. With the last one goes what watchers have.
func (h *hub) leave(w *watcher) {
	h.reading.Lock()
	defer h.reading.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.cut != nil {
		w.cut.Stop()
	}
	delete(h.watchers, w)
	h.watching.Store(int32(len(h.watchers)))
	if len(h.watchers) == 0 {
		clear(h.pods)
		clear(h.marked)
	}
}
