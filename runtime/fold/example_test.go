package fold_test

import (
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// A node in memory: three facts, and what the actors decide on them.
func Example() {
	manifest := func(digest string) (*corev1.Pod, error) {
		return &corev1.Pod{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "web", Image: "registry.example.com/web:1"}},
		}}, nil
	}
	node := fold.NewCore(fold.AllDeciders, manifest, 1)
	put := func(about messages.Ref, e *journaletv1.Event) {
		if err := node.Put(time.Unix(1_700_000_000, 0), about, e); err != nil {
			log.Fatal(err)
		}
	}
	put(messages.Agent, messages.NewEvent(&journaletv1.AgentStarted{
		Epoch: 1, Config: &journaletv1.AgentConfig{NodeName: "node-1", Sources: []string{messages.FileSource}},
	}))
	put(messages.Runtime, messages.NewEvent(&journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true}))
	put(messages.Source(messages.FileSource), messages.NewEvent(&journaletv1.ManifestsRead{
		Source: messages.FileSource, Changed: []*journaletv1.ManifestFile{{
			Path: "web.yaml",
			Pods: []*journaletv1.PodRef{{Uid: "1", Namespace: "default", Name: "web-node-1", Digest: "sha256:1"}},
		}},
	}))
	for i, rec := range node.Records() {
		for _, e := range messages.Events(rec) {
			fmt.Println(i+1, messages.RefOf(rec.GetActor()), messages.EventName(e))
		}
	}
	// Output:
	// 1 agent/0 agent_started
	// 2 runtime/0 runtime_health_changed
	// 3 source/file manifests_read
	// 4 source/file pod_updated
	// 5 pod/1 admission_requested
	// 5 pod/1 pod_status_changed
	// 6 node/0 admission_decided
	// 7 pod/1 call_requested
	// 8 runtime/0 call_dispatched
}
