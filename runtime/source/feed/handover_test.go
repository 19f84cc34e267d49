package feed

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

// Each call syncs the disk.
func TestPodsOfAllFilesAreStoredAtOnce(t *testing.T) {
	var calls, primed, named int
	stored := map[string]bool{}
	s := &Sender{
		Log: slog.New(slog.DiscardHandler),
		Store: func(_ context.Context, manifests iter.Seq2[string, []byte]) error {
			calls++
			for digest := range manifests {
				stored[digest] = true
			}
			return nil
		},
		Prime: func(digest string, _ *corev1.Pod) {
			if primed++; !stored[digest] {
				t.Errorf("%s is primed before it is stored", digest)
			}
		},
		Sink: func(_ context.Context, fact *journaletv1.ManifestsRead) error {
			for _, f := range fact.GetChanged() {
				named += len(f.GetPods())
			}
			return nil
		},
	}
	var files []File
	for i := range 50 {
		path := fmt.Sprintf("p%d.yaml", i)
		file, pods := Decode(path, "/"+path, fmt.Appendf(nil, `
apiVersion: v1
kind: Pod
metadata: {name: p%d}
spec: {containers: [{name: main, image: x}]}
`, i), manifest.Options{NodeName: node})
		files = append(files, File{file, pods})
	}
	must.OK(t, s.Send(t.Context(), files, true))
	if calls != 1 || len(stored) != 50 || primed != 50 || named != 50 {
		t.Errorf("%d calls, %d pods stored, %d primed, %d named", calls, len(stored), primed, named)
	}
}
