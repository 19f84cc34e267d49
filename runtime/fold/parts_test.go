package fold

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// Two copies of the largest file, with the longest names: the step on them is larger than a record may be. All of it
// is recorded, and the pod of another file is added.
func TestCopiesOfALargeFileLeaveOtherFilesAlone(t *testing.T) {
	c := NewCore(AllDeciders, func(string) (*corev1.Pod, error) { return &corev1.Pod{}, nil }, 1)
	at := time.Unix(1, 0)
	must.OK(t, c.Put(at, messages.Agent, messages.NewEvent(&journaletv1.AgentStarted{
		Epoch: 1, Config: &journaletv1.AgentConfig{NodeName: "n", Sources: []string{messages.FileSource}},
	})))
	var pods []*journaletv1.PodRef
	for i := range 1024 {
		pods = append(pods, &journaletv1.PodRef{
			Uid: fmt.Sprintf("%064d", i), Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%0253d", i),
			Digest: fmt.Sprintf("sha256:%064d", i),
		})
	}
	for _, path := range []string{"a", "b", "c"} {
		f := &journaletv1.ManifestFile{Path: strings.Repeat(path, 250), Pods: pods}
		must.OK(t, c.Put(at, messages.Source(messages.FileSource), messages.NewEvent(&journaletv1.ManifestsRead{
			Source: messages.FileSource, Changed: []*journaletv1.ManifestFile{f},
		})))
	}
	// The first copy goes, and a small file comes.
	must.OK(t, c.Put(at, messages.Source(messages.FileSource), messages.NewEvent(&journaletv1.ManifestsRead{
		Source: messages.FileSource, Changed: []*journaletv1.ManifestFile{
			{Path: strings.Repeat("a", 250)}, {Path: "z", Pods: []*journaletv1.PodRef{{Uid: "z", Name: "z", Namespace: "d"}}},
		},
	})))
	ignored, added, split := 0, false, false
	for _, rec := range c.Records() {
		if _, err := messages.Encode(rec); err != nil {
			t.Errorf("%s: %v", messages.RefOf(rec.GetActor()), err)
		}
		split = split || rec.GetStep().GetMore()
		for _, e := range rec.GetStep().GetDecisions() {
			if e.GetManifestIgnored() != nil {
				ignored++
			}
			added = added || e.GetPodUpdated().GetPod().GetUid() == "z"
		}
	}
	if ignored < 2*len(pods) || !added || !split {
		t.Errorf("%d manifests are ignored, the other pod is added: %v, steps are split: %v", ignored, added, split)
	}
	must.OK(t, c.Replay())
}
