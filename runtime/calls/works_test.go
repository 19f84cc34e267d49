package calls

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestOutcomesOfAllVolumesOfAPodFitARecord(t *testing.T) {
	for _, n := range []int{1, 1000} {
		out := &journaletv1.CallFinished{}
		for i := range n {
			out.Volumes = append(out.Volumes, &journaletv1.VolumeOutcome{
				Name: fmt.Sprintf("%063d", i), Message: strings.Repeat("m", 2*maxVolumeMessageBytes),
			})
		}
		(&Call{works: NewWorks(WorksOptions{})}).bound(out)
		if size := proto.Size(out); size > messages.MaxRecordBytes/2 || out.GetVolumes()[n-1].GetMessage() == "" ||
			n == 1 && len(out.GetVolumes()[0].GetMessage()) != maxVolumeMessageBytes {
			t.Errorf("%d volumes: %d bytes", n, size)
		}
	}
}

// failing is a worker whose code has a defect.
type failing struct{}

func (failing) Do(context.Context, *Call, *journaletv1.CallRequested) (*Outcome, error) {
	panic("s3cret")
}

func TestADefectOfAWorkerIsAFailureOfItsCall(t *testing.T) {
	log := &bytes.Buffer{}
	w := NewWorks(WorksOptions{Log: slog.New(slog.NewTextHandler(log, nil))}, failing{})
	req := &journaletv1.CallRequested{Work: &journaletv1.CallRequested_RunHook{RunHook: &journaletv1.RunHook{}}}
	out := w.Perform(t.Context(), "i", "pod/u", req, false)
	if !out.GetRetryable() || out.GetError() != journaletv1.CallError_CALL_ERROR_RUNTIME || out.GetIntentId() != "i" {
		t.Errorf("the outcome is %v", out)
	}
	for _, text := range []string{out.GetMessage(), log.String()} {
		if !strings.Contains(text, "bug of the agent") || strings.Contains(text, "s3cret") {
			t.Errorf("it says %q", text)
		}
	}
	if !strings.Contains(log.String(), "failing") || !strings.Contains(log.String(), "run_hook") {
		t.Errorf("the log does not say where: %s", log)
	}
}
