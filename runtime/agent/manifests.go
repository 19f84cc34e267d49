package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/withhold"
)

// manifestCache caches decoded manifests by digest while an actor may need them, so that no event and no call reads the
// disk or decodes JSON.
type manifestCache struct {
	load func(ctx context.Context, digest string) ([]byte, error)
	// secrets returns the contents of the Secrets that a pod refers to; ok is false if they are unknown. Nil: none.
	secrets func(uid string) (values []string, ok bool)

	mu   sync.Mutex
	pods map[string]*corev1.Pod
	// owned are the last two digests of each pod, the newest first: calls for the old manifest may still run during an
	// update. They are dropped with their pod.
	owned map[string][2]string
}

// maxManifests bounds the pods whose manifests are cached. It is more than a directory may hold (4096 files). It evicts
// manifests that are read but never run, such as an edited duplicate: no event ends them. An evicted manifest is read
// from the bus again.
const maxManifests = 8192

// withholdTimeout bounds the read of a manifest for a text of the runtime.
const withholdTimeout = 5 * time.Second

func newManifestCache(load func(ctx context.Context, digest string) ([]byte, error)) *manifestCache {
	return &manifestCache{load: load, pods: map[string]*corev1.Pod{}, owned: map[string][2]string{}}
}

// add caches a pod that was just stored under its digest.
func (c *manifestCache) add(digest string, pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := string(pod.UID)
	c.pods[digest] = pod
	had := c.owned[uid]
	if had[0] == digest {
		return
	}
	if had[1] != digest {
		delete(c.pods, had[1])
	}
	c.owned[uid] = [2]string{digest, had[0]}
	for other := range c.owned {
		if len(c.owned) <= maxManifests {
			return
		}
		if other != uid {
			c.drop(other)
		}
	}
}

// drop evicts a pod's manifests; c.mu is held.
func (c *manifestCache) drop(uid string) {
	for _, digest := range c.owned[uid] {
		delete(c.pods, digest)
	}
	delete(c.owned, uid)
}

// get returns a manifest from memory or from the bus.
func (c *manifestCache) get(ctx context.Context, digest string) (*corev1.Pod, error) {
	c.mu.Lock()
	pod := c.pods[digest]
	c.mu.Unlock()
	if pod != nil {
		return pod, nil
	}
	b, err := c.load(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	if pod, err = manifest.Load(b); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	c.add(digest, pod)
	return pod, nil
}

// newest returns the newest manifest of a pod; nil if none is in memory.
func (c *manifestCache) newest(uid string) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[c.owned[uid][0]]
}

// own sets the manifest of a pod of an earlier run.
func (c *manifestCache) own(uid, digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if digest != "" && c.owned[uid][0] == "" {
		c.owned[uid] = [2]string{digest}
	}
}

// withhold takes out of a text of the runtime what the manifest of a pod, and the Secrets that it refers to, hold as
// credentials. A pod without a manifest is an orphan.
func (c *manifestCache) withhold(uid, text string) string {
	var secrets []string
	if c.secrets != nil && text != "" {
		known := false
		if secrets, known = c.secrets(uid); !known {
			return withhold.Mark // the text is lost rather than a secret
		}
	}
	c.mu.Lock()
	digest := c.owned[uid][0]
	c.mu.Unlock()
	if digest == "" {
		return withhold.Text(text, nil, secrets...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), withholdTimeout)
	defer cancel()
	pod, err := c.get(ctx, digest)
	if err != nil {
		return withhold.Mark
	}
	return withhold.Text(text, pod, secrets...)
}

// Stored evicts the manifests of forgotten pods.
func (c *manifestCache) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		k := e.GetPodForgotten()
		if k == nil {
			continue
		}
		c.mu.Lock()
		c.drop(k.GetUid())
		c.mu.Unlock()
	}
}
