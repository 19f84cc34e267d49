package feed

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// Store stores the pods that the recorded file does not have, and primes all. It ends at the first failure.
func Store(ctx context.Context, pods []manifest.Parsed, recorded *journaletv1.ManifestFile,
	store func(ctx context.Context, digest string, canonical []byte) error, prime func(digest string, pod *corev1.Pod),
) error {
	known := map[string]bool{}
	for _, p := range recorded.GetPods() {
		known[p.GetDigest()] = true
	}
	for _, p := range pods {
		if !known[p.Digest] {
			if err := store(ctx, p.Digest, p.Canonical); err != nil {
				return fmt.Errorf("store the manifest of %s/%s: %w", p.Pod.Namespace, p.Pod.Name, err)
			}
		}
		prime(p.Digest, p.Pod)
	}
	return nil
}

// Log logs an emitted file, for readers of the log.
func Log(log *slog.Logger, f *journaletv1.ManifestFile, pods []manifest.Parsed) {
	for _, p := range f.GetProblems() {
		log.Warn("manifest problem", "file", f.GetPath(), "line", p.GetLine(), "field", p.GetField(),
			"code", p.GetCode(), "problem", p.GetMessage())
	}
	for _, p := range pods {
		for _, w := range p.Warnings {
			log.Warn("manifest warning", "warning", w)
		}
	}
	log.Info("manifest read", "file", f.GetPath(), "pods", len(f.GetPods()), "problems", len(f.GetProblems()))
}
