package mirror

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// world is a node with static pods and an API server with their mirror pods.
type world struct {
	d         *Driver
	statics   map[string]Static
	undecided map[string]bool
	objects   map[types.UID]*corev1.Pod // as the watch shows them
	fail      error                     // of the next creation
	synced    bool
	mu        sync.Mutex
	log       []string
	next      int
}

// run runs a driver on virtual time. Nothing of the world changes while the driver works.
func run(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			statics: map[string]Static{}, undecided: map[string]bool{}, objects: map[types.UID]*corev1.Pod{},
		}
		w.d = New(Options{
			NodeName: "n", Orphan: func(context.Context, name) bool { return w.synced },
			Static: func(_ context.Context, uid string) (Static, error) {
				s, ok := w.statics[uid]
				switch {
				case w.undecided[uid]:
					return Static{}, ErrUndecided
				case ok:
					return s, nil
				}
				return Static{}, ErrNoPod
			},
			Object: func(uid types.UID) *corev1.Pod { return w.objects[uid] },
			Create: func(_ context.Context, p *corev1.Pod) (*corev1.Pod, error) {
				w.note("create " + p.Name)
				if err := w.fail; err != nil {
					w.fail = nil
					return nil, err
				}
				w.next++
				p = p.DeepCopy()
				p.UID = types.UID(fmt.Sprint("mirror", w.next))
				return p, nil
			},
			Delete: func(_ context.Context, _, name string, uid types.UID) error {
				w.note(fmt.Sprint("delete ", name, " ", uid))
				return nil
			},
			Changed: func(uid string) { w.note("changed " + uid) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.d.Run(ctx) }()
		test(w)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what)
}

func (w *world) stored(e *journaletv1.Event) {
	w.d.Stored(&journaletv1.Record{Actor: messages.Source("file").Proto(), Body: &journaletv1.Record_Step{
		Step: &journaletv1.Step{Decisions: []*journaletv1.Event{e}}}})
	synctest.Wait()
}

// add adds a static pod with a digest.
func (w *world) add(uid, name, digest string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(uid)}}
	w.statics[uid] = Static{Pod: p, Digest: digest}
	w.stored(messages.NewEvent(&journaletv1.PodUpdated{
		Pod: &journaletv1.PodRef{Uid: uid, Namespace: "ns", Name: name, Digest: digest}}))
}

func (w *world) show(p *corev1.Pod) {
	w.objects[p.UID] = p
	w.d.Seen(p.UID)
	synctest.Wait()
}

// showMirror shows the mirror pod m of the static pod u, which an earlier agent has created.
func (w *world) showMirror(name string) {
	static := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "u"}}
	m := Static{Pod: static}.build("n", "x")
	m.UID = "m"
	w.show(m)
}

func (w *world) end(uid types.UID) {
	delete(w.objects, uid)
	w.d.Seen(uid)
	synctest.Wait()
}

func (w *world) did(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmt.Sprint(w.log) != fmt.Sprint(want) {
		t.Errorf("did\n%s\nwant\n%s", strings.Join(w.log, "\n"), strings.Join(want, "\n"))
	}
	w.log = nil
}

func TestMirrorPodWaitsForTheNodeAndIsOwnedByIt(t *testing.T) {
	run(t, func(w *world) {
		w.add("u", "web-n", "d1")
		w.did(t)
		w.d.SeedNode("node-uid")
		w.did(t, "create web-n", "changed u")
		m := w.d.Mirror(w.statics["u"].Pod)
		if m == nil || m.UID != "mirror1" || !Is(m) || Of(m) != "u" || len(m.OwnerReferences) != 1 {
			t.Fatalf("the mirror pod is %v", m)
		}
		if o := m.OwnerReferences[0]; o.Kind != "Node" || o.Name != "n" || o.UID != "node-uid" || !*o.Controller {
			t.Errorf("its owner is %v", o)
		}
		w.show(m)
		w.did(t, "changed u")
	})
}

// An agent that was killed behind the record of a pod has it in no fold.
func TestMirrorPodOfAPodThatNoActorHasHandledIsCreated(t *testing.T) {
	run(t, func(w *world) {
		static := func(uid string, api *journaletv1.ApiPod) *journaletv1.Event {
			w.statics[uid] = Static{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: uid, Namespace: "ns", UID: types.UID(uid)}}, Digest: "1"}
			return messages.NewEvent(&journaletv1.PodUpdated{
				Pod: &journaletv1.PodRef{Uid: uid, Namespace: "ns", Name: uid, Digest: "1", Api: api}})
		}
		w.d.SeedNode("node")
		rec := &journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Decisions: []*journaletv1.Event{
			static("web", nil), static("other", nil), static("bound", &journaletv1.ApiPod{})}}}}
		w.d.SeedPending("web", rec)
		w.d.SeedPending("bound", rec)
		w.did(t, "create web", "changed web")
	})
}

func TestMirrorPodIsReplacedWhenItsPodChangesOrItIsDeleted(t *testing.T) {
	run(t, func(w *world) {
		w.d.SeedNode("node-uid")
		w.add("u", "web-n", "d1")
		w.did(t, "create web-n", "changed u")
		w.add("u", "web-n", "d2")
		w.did(t, "delete web-n mirror1", "create web-n", "changed u")
		w.add("v", "web-n", "d2")
		w.did(t, "delete web-n mirror2", "create web-n", "changed v")
		m := w.d.Mirror(w.statics["v"].Pod).DeepCopy()
		m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		w.show(m)
		synctest.Wait()
		w.did(t, "changed v", "delete web-n mirror3", "create web-n", "changed v")
		w.end("mirror3") // late
		w.did(t)
		w.end(w.d.Mirror(w.statics["v"].Pod).UID)
		w.did(t, "create web-n", "changed v")
	})
}

func TestMirrorPodThatAnotherAgentReplacesIsCreatedWithPauses(t *testing.T) {
	run(t, func(w *world) {
		w.d.SeedNode("node-uid")
		w.add("u", "web-n", "d1")
		static := w.statics["u"].Pod
		creations := func() (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, line := range w.log {
				if strings.HasPrefix(line, "create ") {
					n++
				}
			}
			w.log = nil
			return n
		}
		replace := func(i int) {
			if m := w.d.Mirror(static); m != nil {
				w.end(m.UID)
				theirs := m.DeepCopy()
				theirs.UID, theirs.Annotations[annotationSeen] = types.UID(fmt.Sprint("theirs", i)), "by another agent"
				w.show(theirs)
			}
			<-time.After(time.Second)
		}
		for i := range 60 {
			replace(i)
		}
		if n := creations(); n < freeTries+2 || n > 2*freeTries+6 {
			t.Errorf("%d creations in the first minute", n)
		}
		for i := range 3600 {
			replace(60 + i)
		}
		if n := creations(); n < 50 || n > 61 {
			t.Errorf("%d creations in an hour, want one a minute", n)
		}
		<-time.After(calmFor)
		if w.d.Mirror(static) == nil {
			t.Error("in the end there is no mirror pod")
		}
		creations()
		replace(-1)
		if n := creations(); n != 1 {
			t.Errorf("%d creations after a calm, want one at once", n)
		}
	})
}

// A watch that broke off may have missed both the creation and the end of a mirror pod.
func TestMirrorPodThatNoListHasIsCreatedAgain(t *testing.T) {
	run(t, func(w *world) {
		w.add("u", "web-n", "d1")
		w.d.SeedNode("node-uid")
		w.did(t, "create web-n", "changed u")
		w.d.Listed()
		w.did(t, "create web-n", "changed u")
	})
}

func TestOrphanGoesOnceAllSourcesAreSynced(t *testing.T) {
	run(t, func(w *world) {
		w.d.SeedNode("node-uid")
		w.showMirror("old-n")
		w.did(t, "changed u")
		w.synced = true
		w.stored(messages.NewEvent(&journaletv1.SourceSynced{Source: "file"}))
		w.did(t, "delete old-n m")
		w.add("u", "web-n", "d1")
		w.did(t, "create web-n", "changed u")
		delete(w.statics, "u")
		w.stored(messages.NewEvent(&journaletv1.PodForgotten{Uid: "u"}))
		w.did(t, "delete web-n mirror1")
	})
}

// The mirror pod of a static pod whose manifest has a problem stays as long as what runs of it does (ADR 112).
func TestMirrorPodOfAPodThatIsKeptOutStays(t *testing.T) {
	run(t, func(w *world) {
		w.d.SeedNode("node-uid")
		w.showMirror("web-n")
		w.stored(messages.NewEvent(&journaletv1.PodsKeptOut{Source: "file", Pods: []string{"ns/web"}}))
		w.stored(messages.NewEvent(&journaletv1.SourceSynced{Source: "file"}))
		<-time.After(time.Hour)
		synctest.Wait()
		w.did(t, "changed u")
		w.synced = true // the manifest is right, or gone
		w.stored(messages.NewEvent(&journaletv1.OrphanConfirmed{Uid: "u"}))
		w.did(t, "delete web-n m")
	})
}

// A pod that the node has rejected may keep the name of another one for as long as its source has it.
func TestMirrorPodOfAPodThatIsGoneGoesWhileTheNextOneWaits(t *testing.T) {
	run(t, func(w *world) {
		w.d.SeedNode("node-uid")
		w.synced = true
		w.add("u", "web-n", "d1")
		w.did(t, "create web-n", "changed u")
		w.undecided["u"], w.undecided["v"] = true, true
		w.add("v", "web-n", "d2")
		w.did(t) // u still terminates
		w.undecided["u"] = false
		delete(w.statics, "u")
		w.stored(messages.NewEvent(&journaletv1.PodForgotten{Uid: "u"}))
		w.did(t, "delete web-n mirror1")
		w.undecided["v"] = false
		w.stored(messages.NewEvent(&journaletv1.AdmissionDecided{Uid: "v"}))
		w.did(t, "create web-n", "changed v")
	})
}

func TestRefusedMirrorPodIsTriedAgainWithPauses(t *testing.T) {
	run(t, func(w *world) {
		w.d.SeedNode("node-uid")
		w.fail = apierrors.NewForbidden(schema.GroupResource{}, "web-n", errors.New("quota"))
		w.add("u", "web-n", "d1")
		w.did(t, "create web-n")
		<-time.After(2 * backOffLeast)
		w.did(t, "create web-n", "changed u")
	})
}

func TestMirrorPodOfAKubeletStaysUntilItIsTerminal(t *testing.T) {
	kubelets := func(hash string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-n", UID: "kubelets", Annotations: map[string]string{
				Annotation: hash, "kubernetes.io/config.hash": hash, annotationSeen: "2026-11-27T08:05:59.881897415Z",
			}},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	for name, test := range map[string]struct {
		mirror *corev1.Pod
		stays  bool
	}{
		"of this pod":            {kubelets("u", corev1.PodRunning), true},
		"of another one":         {kubelets("v", corev1.PodRunning), false},
		"of this pod, failed":    {kubelets("u", corev1.PodFailed), false},
		"of this pod, succeeded": {kubelets("u", corev1.PodSucceeded), false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.show(test.mirror)
				w.d.SeedNode("node-uid")
				w.add("u", "web-n", "d1")
				w.synced = true
				w.mu.Lock()
				log := strings.Join(w.log, ", ")
				w.mu.Unlock()
				if replaced := strings.Contains(log, "delete web-n kubelets"); replaced == test.stays {
					t.Errorf("did %s", log)
				}
				if m := w.d.Mirror(w.statics["u"].Pod); test.stays && (m == nil || m.UID != "kubelets") {
					t.Errorf("it shows its status in %v", m)
				}
			})
		})
	}
}
