package clean

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const uid = "7c0f4e0a-0f4b-4c3e-9a59-6a1c0f7ad7f1"

// observed is what the runtime shows of a pod with some containers.
func observed(containers int, message string) *journaletv1.Event {
	id := strings.Repeat("0123456789abcdef", 4)
	o := &journaletv1.PodObserved{Uid: uid, ObservedAt: timestamppb.Now(), Sandboxes: []*journaletv1.SandboxObservation{{
		Id: id, State: journaletv1.SandboxState_SANDBOX_STATE_READY, CreatedAt: timestamppb.Now(),
		Ips: []string{"10.88.0.7"}, IntentId: "1.12.pod/" + uid + ".1",
	}}}
	for range containers {
		o.Containers = append(o.Containers, &journaletv1.ContainerObservation{
			Id: id, Name: "web", SandboxId: id, State: journaletv1.ContainerState_CONTAINER_STATE_EXITED,
			CreatedAt: timestamppb.Now(), StartedAt: timestamppb.Now(), Reason: "Error", Message: message,
			Image: "docker.io/library/nginx:1.29", ImageRef: "docker.io/library/nginx@sha256:" + id, Hash: "5f9c1a7b",
			IntentId: "1.15.pod/" + uid + ".0",
		})
	}
	return messages.NewEvent(o)
}

func finished() *journaletv1.Event {
	return messages.NewEvent(&journaletv1.CallFinished{
		IntentId: "1.15.pod/" + uid + ".0", Requester: "pod/" + uid, ContainerId: strings.Repeat("0123456789abcdef", 4),
	})
}

func BenchmarkFact(b *testing.B) {
	for name, e := range map[string]*journaletv1.Event{
		"a pod of two containers": observed(2, "it failed\n"),
		"a call":                  finished(),
		"a probe": messages.NewEvent(&journaletv1.ProbeResult{
			Uid: uid, Container: "web", ContainerId: strings.Repeat("0123456789abcdef", 4),
			Message: "Readiness probe failed: Get \"http://10.88.0.7:80/\": context deadline exceeded",
		}),
		"a pod that is changed": observed(2, "it failed\xff\n"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Fact(e)
			}
		})
	}
	b.Run("the encoding of a pod of two containers", func(b *testing.B) {
		rec := &journaletv1.Record{Seq: 1, Body: &journaletv1.Record_Fact{Fact: observed(2, "it failed\n")}}
		b.ReportAllocs()
		for b.Loop() {
			_, _ = messages.Encode(rec)
		}
	})
}
