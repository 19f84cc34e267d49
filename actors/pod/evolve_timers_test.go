package pod

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestBackOffStepIsUndoneOnce(t *testing.T) {
	r := &journaletv1.ContainerRecord{BackOff: &journaletv1.BackOff{
		Delay: durationpb.New(40 * time.Second), UpdatedAt: timestamppb.New(time.Unix(1, 0)),
	}}
	for range 2 {
		undoBackOff(r)
		if b := r.GetBackOff(); b.GetDelay().AsDuration() != 20*time.Second || b.GetUpdatedAt() != nil {
			t.Errorf("it is %v, want 20 s and no time", b)
		}
	}
}

func TestBackOffOfARequestedStartIsKept(t *testing.T) {
	r := &journaletv1.ContainerRecord{RestartRequested: true, BackOff: &journaletv1.BackOff{
		Delay: durationpb.New(40 * time.Second), UpdatedAt: timestamppb.New(time.Unix(1, 0)),
	}}
	if undoBackOff(r); r.GetBackOff().GetDelay().AsDuration() != 40*time.Second || r.GetBackOff().GetUpdatedAt() == nil {
		t.Errorf("it is %v, want it unchanged", r.GetBackOff())
	}
}
