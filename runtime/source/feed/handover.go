package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// maxFactBytes is the size at which changes are split into several facts. With the largest file added, a fact stays
// below the size of a record (1 MiB).
const maxFactBytes = 256 << 10

// Sender emits the files of one source that differ from the recorded ones.
type Sender struct {
	Recorded
	Source string
	// Store stores manifests by their digests, Prime receives what is stored, and Sink emits a fact.
	Store func(ctx context.Context, manifests iter.Seq2[string, []byte]) error
	Prime func(digest string, pod *corev1.Pod)
	Sink  func(context.Context, *journaletv1.ManifestsRead) error
	Log   *slog.Logger
	// AllOrNone: where a pod cannot be stored, nothing is emitted. Otherwise the other files are.
	AllOrNone bool
	// Settled is called with each file that is recorded as it is now. May be nil.
	Settled func(name string)

	sent bool // a complete read of this run has been emitted
	part bool // before it, a part of it was emitted
}

// File is the current content of a file, without pods and problems if it is gone, and its pods as decoded.
type File struct {
	*journaletv1.ManifestFile
	Pods []manifest.Parsed
}

// Send stores the pods of the files that differ, and emits these files in their order. complete means that the source
// has no other files. The error names what could not be stored or emitted; Send again then.
func (s *Sender) Send(ctx context.Context, files []File, complete bool) error {
	var changed []File
	for _, f := range files {
		s.keepEscaped(f)
		if s.Differs(f.ManifestFile) {
			changed = append(changed, f)
		} else {
			s.settle(f)
		}
	}
	changed, failed := s.store(ctx, changed)
	if s.AllOrNone && len(failed) > 0 {
		return errors.Join(failed...)
	}
	// A read is complete only when all of it has been emitted.
	complete = complete && len(failed) == 0
	s.part = s.part || len(changed) > 0
	synced := complete && (!s.Synced || !s.sent && s.part)
	for synced || len(changed) > 0 {
		fact, size, n := &journaletv1.ManifestsRead{Source: s.Source, HeldNamesStay: true, HeldContentsStay: true}, 0, 0
		for ; n < len(changed) && size < maxFactBytes; n++ {
			fact.Changed = append(fact.Changed, changed[n].ManifestFile)
			size += proto.Size(changed[n].ManifestFile)
		}
		fact.Synced = synced && n == len(changed)
		if err := s.emit(ctx, fact, changed[:n]); err != nil {
			return err
		}
		changed, synced = changed[n:], synced && !fact.Synced
	}
	s.sent = s.sent || complete
	return errors.Join(failed...)
}

// keepEscaped changes the pods of a file that are recorded as an earlier version wrote them to what is recorded.
func (s *Sender) keepEscaped(f File) {
	recorded := map[string]bool{}
	for _, p := range s.Files[f.GetPath()].GetPods() {
		recorded[p.GetDigest()] = true
	}
	for i, p := range f.Pods {
		if len(recorded) == 0 || recorded[p.Digest] {
			continue
		}
		if before := p.Escaped(); recorded[before.Digest] {
			f.Pods[i], f.ManifestFile.Pods[i].Digest = before, before.Digest
		}
	}
}

func (s *Sender) emit(ctx context.Context, fact *journaletv1.ManifestsRead, files []File) error {
	if err := s.Sink(ctx, fact); err != nil {
		return fmt.Errorf("emit the fact: %w", err)
	}
	s.Apply(fact)
	for _, f := range files {
		s.log(f)
		s.settle(f)
	}
	return nil
}

func (s *Sender) settle(f File) {
	if s.Settled != nil {
		s.Settled(f.GetPath())
	}
}

// store stores the pods of files, all at once: a disk syncs once for them. If that fails, it stores file by file, so
// that one bad pod does not block pods of other files. It returns the files whose pods are stored, and why pods of
// other files are not.
func (s *Sender) store(ctx context.Context, files []File) (stored []File, failed []error) {
	if err := s.storeAll(ctx, files); err == nil {
		return files, nil
	}
	for i := range files {
		if err := s.storeAll(ctx, files[i:i+1]); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", files[i].GetPath(), err))
		} else {
			stored = append(stored, files[i])
		}
	}
	return stored, failed
}

// storeAll stores the pods that the recorded files do not have, and primes all.
func (s *Sender) storeAll(ctx context.Context, files []File) error {
	known := map[string]bool{}
	var pods, missing []manifest.Parsed
	for _, f := range files {
		for _, p := range s.Files[f.GetPath()].GetPods() {
			known[p.GetDigest()] = true
		}
		pods = append(pods, f.Pods...)
	}
	for _, p := range pods {
		if !known[p.Digest] {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		if err := s.Store(ctx, canonical(missing)); err != nil {
			return err
		}
	}
	for _, p := range pods {
		s.Prime(p.Digest, p.Pod)
	}
	return nil
}

// canonical returns the canonical manifests of pods by their digests.
func canonical(pods []manifest.Parsed) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, p := range pods {
			if !yield(p.Digest, p.Canonical) {
				return
			}
		}
	}
}

// log logs an emitted file, for readers of the log: one line for each pod that its problems keep out, with the first of
// them, and one for each problem of something else.
func (s *Sender) log(f File) {
	byPod := map[string]int{}
	for _, p := range f.GetProblems() {
		byPod[p.GetPod()]++
	}
	logged := map[string]bool{}
	for _, p := range f.GetProblems() {
		pod := p.GetPod()
		if pod != "" && logged[pod] {
			continue
		}
		logged[pod] = true
		text := p.GetMessage()
		if n := byPod[pod]; pod != "" && n > 1 {
			text = fmt.Sprintf("%d problems, the first: %s; all: journalet validate FILE", n, text)
		}
		s.Log.Warn("manifest problem", "file", f.GetPath(), "pod", pod, "line", p.GetLine(), "field", p.GetField(),
			"code", p.GetCode(), "problem", text)
	}
	for _, p := range f.Pods {
		for _, w := range p.Warnings {
			s.Log.Warn("manifest warning", "warning", w.Error())
		}
	}
	s.Log.Info("manifest read", "file", f.GetPath(), "pods", len(f.GetPods()), "problems", len(f.GetProblems()))
}

// LogIgnored logs the pods of files that the actor of a source ignores for another file, from the record that says so.
func LogIgnored(log *slog.Logger, rec *journaletv1.Record) {
	if rec.GetActor().GetKind() != journaletv1.ActorKind_ACTOR_KIND_SOURCE {
		return
	}
	for _, e := range rec.GetStep().GetDecisions() {
		if i := e.GetManifestIgnored(); i != nil {
			log.Warn("manifest ignored", "file", i.GetPath(), "pod", i.GetPod().GetNamespace()+"/"+i.GetPod().GetName(),
				"code", i.GetReason(), "problem", i.GetMessage())
		}
	}
}
