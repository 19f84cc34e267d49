package agent

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/manifest"
)

// library keeps the typed pods that digests name, as long as an actor may need them, so that no
// event and no call reads the disk or decodes JSON for a manifest that is in use.
type library struct {
	load func(ctx context.Context, digest string) ([]byte, error)

	mu   sync.Mutex
	pods map[string]*corev1.Pod
	// owner is the digest last seen of each pod, so that it can go with its pod.
	owner map[string]string
}

func newLibrary(load func(ctx context.Context, digest string) ([]byte, error)) *library {
	return &library{load: load, pods: map[string]*corev1.Pod{}, owner: map[string]string{}}
}

// prime takes a pod that was just stored under its digest.
func (l *library) prime(digest string, pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods[digest] = pod
	if old := l.owner[string(pod.UID)]; old != digest {
		l.owner[string(pod.UID)] = digest
	}
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
		delete(l.pods, l.owner[k.GetUid()])
		delete(l.owner, k.GetUid())
		l.mu.Unlock()
	}
}
