package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// ids returns the ids that pods get for events, as "uid first+length", a rejection as "uid reason".
func ids(t *testing.T, a *Actor, events ...*journaletv1.Event) string {
	t.Helper()
	var out []string
	for _, body := range events {
		e := actors.Event{Body: body}
		if err := a.Evolve(e); err != nil {
			t.Fatal(err)
		}
		err := actors.Decide(a, actors.Input{Events: []actors.Event{e}}, func(d *journaletv1.Event) error {
			switch x := d.GetAdmissionDecided(); {
			case d.GetAdmissionPendingPreemption() != nil:
				p := d.GetAdmissionPendingPreemption()
				out = append(out, p.GetUid()+" preempts "+strings.Join(p.GetVictims(), " "))
			case x.GetUserNamespace() != nil:
				own := x.GetUserNamespace()
				out = append(out, fmt.Sprint(x.GetUid(), " ", own.GetHostId(), "+", own.GetLength()))
			case x.GetAdmitted():
				out = append(out, x.GetUid()+" none")
			case x != nil:
				out = append(out, x.GetUid()+" "+x.GetReason())
			}
			return a.Evolve(actors.Event{Body: d})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(out, ", ")
}

func startedWithIDs(
	idRange *journaletv1.UserNamespaceRange, found map[string]*journaletv1.UserNamespace,
) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.AgentStarted{
		Config: &journaletv1.AgentConfig{UserNamespaces: idRange}, FoundUserNamespaces: found,
	})
}

func requests(uid string, own bool) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.AdmissionRequested{
		Uid: uid, Name: uid, UserNamespace: own, Demand: new(journaletv1.PodDemand),
	})
}

func TestIDsAreAPodsOwnUntilItHasFinished(t *testing.T) {
	a := New()
	three := &journaletv1.UserNamespaceRange{First: 65536, Pods: 3, IdsPerPod: 65536}
	want := "a 65536+65536, b none, c 131072+65536, d 196608+65536, e OutOfUserNamespaces, f 131072+65536"
	got := ids(t, a, startedWithIDs(three, nil), requests("a", true), requests("b", false), requests("c", true),
		requests("d", true), requests("e", true),
		messages.NewEvent(&journaletv1.PodTerminated{Uid: "a"}),
		messages.NewEvent(&journaletv1.PodTerminated{Uid: "c"}), messages.NewEvent(&journaletv1.PodFinished{Uid: "c"}),
		requests("f", true))
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestIDsOfPodsThatTheJournalLostAreKept(t *testing.T) {
	a := New()
	found := map[string]*journaletv1.UserNamespace{
		"kept": {HostId: 131072, Length: 65536}, "gone": {HostId: 65536, Length: 65536},
	}
	all := &journaletv1.UserNamespaceRange{First: 65536, Pods: 100, IdsPerPod: 65536}
	want := "new 196608+65536, kept 131072+65536, newer 65536+65536"
	got := ids(t, a, startedWithIDs(all, found), requests("new", true), requests("kept", true),
		messages.NewEvent(&journaletv1.PodFinished{Uid: "gone"}), requests("newer", true))
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(a.state.FoundUserNamespaces) != 0 {
		t.Errorf("left: %v", a.state.FoundUserNamespaces)
	}
}

func TestIDsAreReservedForAPodThatOthersArePreemptedFor(t *testing.T) {
	start := messages.NewEvent(&journaletv1.AgentStarted{Config: &journaletv1.AgentConfig{
		UserNamespaces: &journaletv1.UserNamespaceRange{First: 65536, Pods: 1, IdsPerPod: 65536},
		Allocatable:    &journaletv1.NodeCapacity{MilliCpu: 1000},
	}})
	request := func(uid string, priority int32, own bool) *journaletv1.Event {
		return messages.NewEvent(&journaletv1.AdmissionRequested{
			Uid: uid, Name: uid, UserNamespace: own, Priority: priority,
			Qos: journaletv1.QosClass_QOS_CLASS_BURSTABLE, Demand: &journaletv1.PodDemand{MilliCpu: 600},
		})
	}
	ended := messages.NewEvent(&journaletv1.PodTerminated{Uid: "low"})
	want := "low none, high preempts low, other OutOfUserNamespaces, high 65536+65536"
	if got := ids(t, New(), start, request("low", 0, false), request("high", 10, true), requests("other", true),
		ended); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	want = "has 65536+65536, low none, high OutOfUserNamespaces"
	got := ids(t, New(), start, requests("has", true), request("low", 0, false), request("high", 10, true))
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestIDsOfAPodThatNobodyHasSeenAreKept(t *testing.T) {
	a := New()
	found := map[string]*journaletv1.UserNamespace{"unseen": {HostId: 65536, Length: 65536}}
	all := &journaletv1.UserNamespaceRange{First: 65536, Pods: 100, IdsPerPod: 65536}
	finished := func(unseen bool) *journaletv1.Event {
		return messages.NewEvent(&journaletv1.PodFinished{Uid: "unseen", Unseen: unseen})
	}
	got := ids(t, a, startedWithIDs(all, found), finished(true), requests("a", true), finished(false), requests("b", true))
	if want := "a 131072+65536, b 65536+65536"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAnotherLengthOfRangesOverlapsWithNoPod(t *testing.T) {
	a := New()
	small := &journaletv1.UserNamespaceRange{First: 65536, Pods: 100, IdsPerPod: 65536}
	large := &journaletv1.UserNamespaceRange{First: 131072, Pods: 100, IdsPerPod: 131072}
	got := ids(t, a, startedWithIDs(small, nil), requests("a", true), requests("b", true), startedWithIDs(large, nil),
		requests("c", true))
	if want := "a 65536+65536, b 131072+65536, c 262144+131072"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestHugePagesAreShared(t *testing.T) {
	a := New()
	two := func(pages int64) []*journaletv1.HugePages {
		return []*journaletv1.HugePages{{PageBytes: 2 << 20, Bytes: pages * 2 << 20}}
	}
	request := func(uid string, pages int64) *journaletv1.Event {
		return messages.NewEvent(&journaletv1.AdmissionRequested{
			Uid: uid, Name: uid, Demand: &journaletv1.PodDemand{HugePages: two(pages)},
		})
	}
	expect(t, a, "admit a, reject b OutOfhugepages-2Mi, admit c, admit d, reject e OutOfhugepages-1Gi",
		messages.NewEvent(&journaletv1.AgentStarted{Config: &journaletv1.AgentConfig{
			Allocatable: &journaletv1.NodeCapacity{HugePages: two(4)},
		}}),
		request("a", 3), request("b", 2), request("c", 1),
		messages.NewEvent(&journaletv1.PodTerminated{Uid: "a"}), request("d", 3),
		messages.NewEvent(&journaletv1.AdmissionRequested{Uid: "e", Name: "e", Demand: &journaletv1.PodDemand{
			HugePages: []*journaletv1.HugePages{{PageBytes: 1 << 30, Bytes: 1 << 30}},
		}}))
	if used := bytesOf(a.state.GetUsed().GetHugePages(), two(1)[0]); used != 4*2<<20 {
		t.Errorf("%d bytes in use", used)
	}
}
