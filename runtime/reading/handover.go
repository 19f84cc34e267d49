package reading

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/manifest"
)

// Store keeps the pods that are not among those told, and lets prime hear of all. It ends at the first that cannot be kept.
func Store(ctx context.Context, pods []manifest.Parsed, told *journaletv1.ManifestFile,
	store func(ctx context.Context, digest string, canonical []byte) error, prime func(digest string, pod *corev1.Pod),
) error {
	known := map[string]bool{}
	for _, p := range told.GetPods() {
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

// Report logs what was handed over, for who reads logs rather than the journal.
func Report(log *slog.Logger, f *journaletv1.ManifestFile, pods []manifest.Parsed) {
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

// Fold is the source actor's reading of a fact (actors/source keeps files so): a file in doubt takes no pod away. What
// the actor will hold, and not only what was read, tells whether a fact would change anything, also after a restart.
func Fold(before, now *journaletv1.ManifestFile) *journaletv1.ManifestFile {
	if len(now.GetPods()) == 0 && len(now.GetProblems()) == 0 && !now.GetUnreadable() {
		return nil
	}
	out := &journaletv1.ManifestFile{
		Path: now.GetPath(), Pods: slices.Clone(now.GetPods()), Problems: now.GetProblems(), Unreadable: now.GetUnreadable(),
	}
	if len(now.GetProblems()) == 0 && !now.GetUnreadable() {
		return out
	}
	named := map[string]bool{}
	for _, p := range now.GetPods() {
		named[p.GetNamespace()+"/"+p.GetName()] = true
	}
	for _, p := range before.GetPods() {
		if !named[p.GetNamespace()+"/"+p.GetName()] {
			out.Pods = append(out.Pods, p)
		}
	}
	return out
}
