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

// The image's /etc/group says in how many groups a user is, and each observation of the pod repeats them.
func TestGroupsOfAnImageDoNotFillTheJournal(t *testing.T) {
	observed := func(containers int) *journaletv1.PodObserved {
		o := &journaletv1.PodObserved{}
		for i := range containers {
			u := &journaletv1.ContainerUser{Uid: 7}
			for g := range int64(65536) {
				u.SupplementalGroups = append(u.SupplementalGroups, 1<<31+g)
			}
			o.Containers = append(o.Containers, &journaletv1.ContainerObservation{Id: fmt.Sprintf("%064d", i), User: u})
		}
		return o
	}
	one := observed(1)
	Fit(one)
	if got := one.GetContainers()[0].GetUser().GetSupplementalGroups(); len(got) != maxGroups || got[0] != 1<<31 {
		t.Errorf("%d groups, the first is %d", len(got), got[0])
	}
	many, last := &journaletv1.PodObserved{}, observed(1).GetContainers()[0]
	for range 1000 {
		many.Containers = append(many.Containers, last)
	}
	Fit(many)
	if n := proto.Size(many); n > maxObservationBytes || many.GetContainers()[0].GetUser().GetUid() != 7 {
		t.Errorf("%d bytes, the first user is %d", n, many.GetContainers()[0].GetUser().GetUid())
	}
	if len(last.GetUser().GetSupplementalGroups()) != 65536 {
		t.Error("the last observation was changed")
	}
}
