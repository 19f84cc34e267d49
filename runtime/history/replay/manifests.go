package replay

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// maxManifests bounds the decoded manifests that a library keeps. One has some 10 KiB.
const maxManifests = 8192

// library returns decoded manifests of a journal, and keeps them. It may be used from several goroutines.
type library struct {
	ctx context.Context
	src history.Reader

	mu   sync.Mutex
	pods map[string]loaded
}

type loaded struct {
	pod *corev1.Pod
	err error
}

func newLibrary(ctx context.Context, src history.Reader) *library {
	return &library{ctx: ctx, src: src, pods: map[string]loaded{}}
}

func (l *library) get(digest string) (*corev1.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m, ok := l.pods[digest]; ok {
		return m.pod, m.err
	}
	m := l.load(digest)
	if len(l.pods) >= maxManifests {
		clear(l.pods)
	}
	l.pods[digest] = m
	return m.pod, m.err
}

func (l *library) load(digest string) loaded {
	b, err := l.src.Manifest(l.ctx, digest)
	if err != nil {
		return loaded{err: err}
	}
	pod, err := manifest.Load(b)
	return loaded{pod, err}
}
