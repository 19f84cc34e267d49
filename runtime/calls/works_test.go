package calls

import (
	"fmt"
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
