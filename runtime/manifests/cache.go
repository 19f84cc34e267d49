package manifests

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/redact"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// Cache caches decoded manifests by digest while an actor may need them, so that no event and no call reads the
// disk or decodes JSON. Of those with large texts it has what manifest.Light leaves, and the whole of the last few.
type Cache struct {
	load func(ctx context.Context, digest string) ([]byte, error)
	// Secrets returns the contents of the Secrets that a pod refers to; ok is false if they are unknown. Nil: none.
	Secrets func(uid string) (values []string, ok bool)

	// large are the whole of large manifests.
	large *lru.Cache

	mu   sync.Mutex
	pods map[string]cached
	// owned are the last two digests of each pod, the newest first: calls for the old manifest may still run during an
	// update. They are dropped with their pod.
	owned map[string][2]string
}

// cached is a manifest in memory. whole is nil for a large one; light is what manifest.Light leaves of it.
type cached struct{ whole, light *corev1.Pod }

const (
	// maxSmallBytes is the size up to which a manifest is kept whole. Most manifests have some KiB.
	maxSmallBytes = 32 << 10
	// maxLarge bounds the larger manifests that are kept whole: at most 24 MiB, as etcd has no object of more than 1.5
	// MiB. A pod that starts or writes its log has its manifest read again and again.
	maxLarge = 16
)

// maxManifests bounds the pods whose manifests are cached. It is more than a directory may hold (4096 files). It evicts
// manifests that are read but never run, such as an edited duplicate: no event ends them. An evicted manifest is read
// from the bus again.
const maxManifests = 8192

// redactTimeout bounds the read of a manifest for a text of the runtime.
const redactTimeout = 5 * time.Second

// New returns a cache without manifests. load reads a stored manifest.
func New(load func(ctx context.Context, digest string) ([]byte, error)) *Cache {
	return &Cache{
		load: load, large: lru.New(maxLarge), pods: map[string]cached{}, owned: map[string][2]string{},
	}
}

// Add caches a pod that was just stored under its digest. What is cached already stays: actors have it, and it is in
// memory once.
func (c *Cache) Add(digest string, pod *corev1.Pod) {
	c.mu.Lock()
	kept, has := c.pods[digest]
	c.mu.Unlock()
	if !has { // without the lock: of a large pod this takes milliseconds
		kept = cached{pod, manifest.Light(pod)}
		if kept.light != pod && pod.Size() > maxSmallBytes {
			kept.whole = nil
		}
	}
	if kept.whole == nil {
		c.large.Add(digest, pod)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := string(pod.UID)
	if _, has := c.pods[digest]; !has {
		c.pods[digest] = kept
	}
	had := c.owned[uid]
	if had[0] == digest {
		return
	}
	if had[1] != digest {
		delete(c.pods, had[1])
		c.large.Remove(had[1])
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
func (c *Cache) drop(uid string) {
	for _, digest := range c.owned[uid] {
		delete(c.pods, digest)
		c.large.Remove(digest)
	}
	delete(c.owned, uid)
}

// Get returns a manifest from memory or from the bus, whole.
func (c *Cache) Get(ctx context.Context, digest string) (*corev1.Pod, error) {
	c.mu.Lock()
	kept := c.pods[digest]
	c.mu.Unlock()
	if kept.whole != nil {
		return kept.whole, nil
	}
	if whole, ok := c.large.Get(digest); ok {
		return whole.(*corev1.Pod), nil //nolint:forcetypeassert // add puts nothing else there
	}
	b, err := c.load(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	pod, err := manifest.Load(b)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	c.Add(digest, pod)
	return pod, nil
}

// Light returns a manifest as actors have it: see manifest.Light.
func (c *Cache) Light(ctx context.Context, digest string) (*corev1.Pod, error) {
	c.mu.Lock()
	kept := c.pods[digest]
	c.mu.Unlock()
	if kept.light != nil {
		return kept.light, nil
	}
	pod, err := c.Get(ctx, digest)
	if err != nil {
		return nil, err
	}
	return manifest.Light(pod), nil // it may have been evicted already
}

// Whole gives a pod that an actor shows the texts that the actor does not have. It stays as it is if they cannot be
// read any more.
func (c *Cache) Whole(ctx context.Context, digest string, pod *corev1.Pod) {
	c.mu.Lock()
	kept := c.pods[digest]
	c.mu.Unlock()
	if digest == "" || kept.light != nil && kept.light == kept.whole {
		return
	}
	if all, err := c.Get(ctx, digest); err == nil {
		pod.Spec = *all.Spec.DeepCopy()
	}
}

// Newest returns the newest manifest of a pod, light; nil if none is in memory.
func (c *Cache) Newest(uid string) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[c.owned[uid][0]].light
}

// Of returns the newest manifest of a pod, whole.
func (c *Cache) Of(ctx context.Context, uid string) (*corev1.Pod, error) {
	c.mu.Lock()
	digest := c.owned[uid][0]
	c.mu.Unlock()
	if digest == "" {
		return nil, fmt.Errorf("pod %s: no manifest is known", uid)
	}
	return c.Get(ctx, digest)
}

// own sets the manifest of a pod of an earlier run.
func (c *Cache) own(uid, digest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if digest != "" && c.owned[uid][0] == "" {
		c.owned[uid] = [2]string{digest}
	}
}

// Redact takes out of a text of the runtime what the manifest of a pod, and the Secrets that it refers to, hold as
// credentials. A pod without a manifest is an orphan.
func (c *Cache) Redact(uid, text string) string {
	var secrets []string
	if c.Secrets != nil && text != "" {
		known := false
		if secrets, known = c.Secrets(uid); !known {
			return redact.Mark // the text is lost rather than a secret
		}
	}
	c.mu.Lock()
	digest := c.owned[uid][0]
	c.mu.Unlock()
	if digest == "" {
		return redact.Text(text, nil, secrets...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), redactTimeout)
	defer cancel()
	pod, err := c.Get(ctx, digest)
	if err != nil {
		return redact.Mark
	}
	return redact.Text(text, pod, secrets...)
}

// Stored evicts the manifests of forgotten pods.
func (c *Cache) Stored(rec *journaletv1.Record) {
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
