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

// A pod whose containers crash again and again is observed with each of them, and each observation has all messages.
func TestMessagesOfAPodsContainersShareItsBound(t *testing.T) {
	for n, want := range map[int]int{1: maxMessageBytes, 3: maxMessageBytes, 4: 3 << 10, 80: 153} {
		o := &journaletv1.PodObserved{}
		for i := range 2 * n {
			o.Containers = append(o.Containers, &journaletv1.ContainerObservation{
				Name: fmt.Sprint("c", i/2), Id: fmt.Sprint(i), Message: strings.Repeat("m", maxMessageBytes),
			})
		}
		Fit(o)
		for _, c := range o.GetContainers() {
			if len(c.GetMessage()) != want {
				t.Errorf("of %d containers %s has a message of %d bytes, want %d", n, c.GetName(), len(c.GetMessage()), want)
			}
		}
	}
}
