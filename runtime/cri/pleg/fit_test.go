package pleg

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestMessagesAreShortenedUntilAnObservationFits(t *testing.T) {
	observed := func(n int) *journaletv1.PodObserved {
		o := &journaletv1.PodObserved{}
		for i := range n {
			o.Containers = append(o.Containers, &journaletv1.ContainerObservation{
				Id: fmt.Sprintf("%064d", i), Message: strings.Repeat("m", maxMessageBytes),
			})
		}
		o.Containers[0].Message = "short"
		return o
	}
	few := observed(80)
	if Fit(few); len(few.GetContainers()[79].GetMessage()) != maxMessageBytes {
		t.Error("messages that fit are shortened")
	}
	many, last := observed(260), observed(260).GetContainers()
	copy(many.Containers, last)
	Fit(many)
	if n := proto.Size(many); n > maxObservationBytes || many.GetContainers()[0].GetMessage() != "short" ||
		many.GetContainers()[259].GetMessage() == "" {
		t.Errorf("%d bytes, messages of %d", n, len(many.GetContainers()[259].GetMessage()))
	}
	if len(last[259].GetMessage()) != maxMessageBytes {
		t.Error("the last observation was changed")
	}
}
