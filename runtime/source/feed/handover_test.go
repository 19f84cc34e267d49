package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
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

const shellPod = `
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec: {containers: [{name: main, image: x, command: [sh, -c, "a && b > c < d"]}]}
`

// Up to 0.1.0 "<", ">" and "&" were escaped in what is stored, so that it has another digest.
func TestPodRecordedByAnEarlierVersionIsNotUpdated(t *testing.T) {
	opts := manifest.Options{NodeName: node}
	file, pods := Decode("p.yaml", "/p.yaml", []byte(shellPod), opts)
	before, err := json.Marshal(pods[0].Pod)
	must.OK(t, err)
	if pods[0].Digest == manifest.Digest(before) {
		t.Fatal("the pod is stored as an earlier version stored it")
	}
	recorded := proto.CloneOf(file)
	recorded.Pods[0].Digest = manifest.Digest(before)
	primed := map[string]bool{}
	emitted := 0
	s := &Sender{
		Log:   slog.New(slog.DiscardHandler),
		Store: func(context.Context, iter.Seq2[string, []byte]) error { return nil },
		Prime: func(digest string, _ *corev1.Pod) { primed[digest] = true },
		Sink:  func(context.Context, *journaletv1.ManifestsRead) error { emitted++; return nil },
	}
	s.Apply(&journaletv1.ManifestsRead{Changed: []*journaletv1.ManifestFile{recorded}, Synced: true})
	must.OK(t, s.Send(t.Context(), []File{{file, pods}}, true))
	if emitted != 0 {
		t.Errorf("%d facts of a file that is recorded as it is", emitted)
	}
	file, pods = Decode("p.yaml", "/p.yaml", []byte(strings.ReplaceAll(shellPod, "image: x", "image: z")), opts)
	must.OK(t, s.Send(t.Context(), []File{{file, pods}}, true))
	if emitted != 1 || !primed[pods[0].Digest] || pods[0].Digest != manifest.Digest(pods[0].Canonical) {
		t.Errorf("%d facts of a changed file, its pod %s, primed %v", emitted, pods[0].Digest, primed)
	}
}
