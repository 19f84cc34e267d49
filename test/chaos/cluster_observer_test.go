//go:build chaos && cluster

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/test/node"
)

// times are durations.
type times []time.Duration

func (d *times) add(one time.Duration) { *d = append(*d, one) }

// String returns the median and the longest.
func (d *times) String() string {
	if len(*d) == 0 {
		return "never"
	}
	all := slices.Sorted(slices.Values(*d))
	return fmt.Sprintf("%s (median of %d), %s (longest)", all[len(all)/2].Round(10*time.Millisecond), len(all),
		all[len(all)-1].Round(10*time.Millisecond))
}

// observed is a pod as the API server has shown it so far.
type observed struct {
	pod      *core.Pod
	seen     time.Time
	deleting time.Time // first seen with a deletionTimestamp

	ready, ended, gone bool // ever
}

// observer watches the pods of the API server, and fails the test at what no later state may excuse.
type observer struct {
	t *testing.T

	mu     sync.Mutex
	all    map[types.UID]*observed // also pods that are gone
	starts times                   // from the first sight of a pod to Ready
	ends   times                   // from the sight of its deletion to its end
	ended  map[core.PodPhase]int   // terminal pods
	lost   int                     // terminal pods whose outcome is unknown
}

func observe(t *testing.T, client *kubernetes.Clientset) *observer {
	t.Helper()
	o := &observer{t: t, all: map[types.UID]*observed{}, ended: map[core.PodPhase]int{}}
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, fields.Everything())
	r := cache.NewReflectorWithOptions(pods, &core.Pod{}, o, cache.ReflectorOptions{
		// With the usual back-off, pods would come and go unseen after an outage.
		Backoff: &wait.Backoff{Duration: 50 * time.Millisecond, Steps: 1},
	})
	var stopped sync.WaitGroup
	stop := make(chan struct{})
	stopped.Go(func() { r.Run(stop) })
	t.Cleanup(func() {
		close(stop)
		stopped.Wait()
	})
	return o
}

// Add, Update, Delete, Replace and Resync are what the reflector calls.

func (o *observer) Add(now any) error    { o.see(now); return nil }
func (o *observer) Update(now any) error { o.see(now); return nil }
func (o *observer) Resync() error        { return nil }

func (o *observer) Delete(last any) error {
	o.see(last)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all[last.(*core.Pod).UID].end(&o.ends)
	return nil
}

func (o *observer) Replace(all []any, _ string) error {
	listed := map[types.UID]bool{}
	for _, p := range all {
		o.see(p)
		listed[p.(*core.Pod).UID] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid, was := range o.all {
		if !listed[uid] {
			was.end(&o.ends)
		}
	}
	return nil
}

// end notes that a pod is gone.
func (was *observed) end(ends *times) {
	if !was.gone && !was.deleting.IsZero() {
		ends.add(time.Since(was.deleting))
	}
	was.gone = true
}

// pods returns the pods that the API server has, in the order of their names.
func (o *observer) pods() []*core.Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	var pods []*core.Pod
	for _, was := range o.all {
		if !was.gone {
			pods = append(pods, was.pod)
		}
	}
	slices.SortFunc(pods, func(a, b *core.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// see compares a pod with what it was.
func (o *observer) see(object any) {
	now := object.(*core.Pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.all[now.UID]
	if was == nil {
		was = &observed{pod: now, seen: time.Now()}
		o.all[now.UID] = was
	}
	o.compare(was.pod, now)
	was.gone = false // a list may be older than the watch before
	if !was.ready && node.Ready(now) {
		was.ready = true
		o.starts.add(time.Since(was.seen))
	}
	if was.deleting.IsZero() && now.DeletionTimestamp != nil {
		was.deleting = time.Now()
	}
	if ended(now) && !was.ended {
		was.ended = true
		o.ended[now.Status.Phase]++
		if lost(now) {
			o.lost++
		}
	}
	was.pod = now
}

// compare reports what a pod may never do: leave a terminal phase, move to another node, or count backwards.
func (o *observer) compare(was, now *core.Pod) {
	if ended(was) && now.Status.Phase != was.Status.Phase {
		o.t.Errorf("%s (%s) was %s and is %s", now.Name, now.UID, was.Status.Phase, now.Status.Phase)
	}
	if was.Spec.NodeName != "" && now.Spec.NodeName != was.Spec.NodeName {
		o.t.Errorf("%s (%s) was bound to %s and is to %s", now.Name, now.UID, was.Spec.NodeName, now.Spec.NodeName)
	}
	before, after := node.Container(was, "main"), node.Container(now, "main")
	if after.RestartCount < before.RestartCount {
		o.t.Errorf("%s (%s) had %d restarts and has %d", now.Name, now.UID, before.RestartCount, after.RestartCount)
	}
	if ended(was) && ended(now) && before.State.Terminated != nil && after.State.Terminated != nil &&
		before.State.Terminated.ExitCode != after.State.Terminated.ExitCode {
		o.t.Errorf("%s (%s) had the exit code %d and has %d", now.Name, now.UID, before.State.Terminated.ExitCode,
			after.State.Terminated.ExitCode)
	}
}

// ended reports whether a pod is in a terminal phase.
func ended(p *core.Pod) bool {
	return p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed
}

// last returns the last state of a pod, nil if the API server never showed it, and whether it is gone.
func (o *observer) last(uid string) (p *core.Pod, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was := o.all[types.UID(uid)]; was != nil {
		return was.pod, was.gone
	}
	return nil, false
}

func (o *observer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	gone := 0
	for _, p := range o.all {
		if p.gone {
			gone++
		}
	}
	return fmt.Sprintf("%d pods, %d of them gone, %d succeeded, %d failed (%d with an unknown outcome); ready after %s; "+
		"gone after %s", len(o.all), gone, o.ended[core.PodSucceeded], o.ended[core.PodFailed], o.lost, &o.starts,
		&o.ends)
}
