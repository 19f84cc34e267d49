package agent

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// library keeps the typed pods that digests name, as long as an actor may need them, so that no
// event and no call reads the disk or decodes JSON for a manifest that is in use.
type library struct {
	load func(ctx context.Context, digest string) ([]byte, error)

	mu   sync.Mutex
	pods map[string]*corev1.Pod
	// owned are the two digests last seen of each pod, the newest first: an update is on its way while calls of what
	// was before are still made. Older ones go, and both go with their pod.
	owned map[string][2]string
}

// maxLibrary bounds the pods whose manifests are kept. It is more than a folder may hold (4096 files), and is for those
// that are read and never run, such as a duplicate that its author changes again and again: nobody says that they are
// gone. What is let go of is read again from the bus when it is asked for.
const maxLibrary = 8192

func newLibrary(load func(ctx context.Context, digest string) ([]byte, error)) *library {
	return &library{load: load, pods: map[string]*corev1.Pod{}, owned: map[string][2]string{}}
}

// prime takes a pod that was just stored under its digest.
func (l *library) prime(digest string, pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uid := string(pod.UID)
	l.pods[digest] = pod
	had := l.owned[uid]
	if had[0] == digest {
		return
	}
	if had[1] != digest {
		delete(l.pods, had[1])
	}
	l.owned[uid] = [2]string{digest, had[0]}
	for other := range l.owned {
		if len(l.owned) <= maxLibrary {
			return
		}
		if other != uid {
			l.drop(other)
		}
	}
}

// drop lets go of a pod's manifests; l.mu is held.
func (l *library) drop(uid string) {
	for _, digest := range l.owned[uid] {
		delete(l.pods, digest)
	}
	delete(l.owned, uid)
}

// get finds a pod, in memory or in the journal's content.
func (l *library) get(ctx context.Context, digest string) (*corev1.Pod, error) {
	l.mu.Lock()
	pod := l.pods[digest]
	l.mu.Unlock()
	if pod != nil {
		return pod, nil
	}
	b, err := l.load(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	if pod, err = manifest.Load(b); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	l.prime(digest, pod)
	return pod, nil
}

// Stored lets go of the manifests of pods that are no more.
func (l *library) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		k := e.GetPodForgotten()
		if k == nil {
			continue
		}
		l.mu.Lock()
		l.drop(k.GetUid())
		l.mu.Unlock()
	}
}
