package node

import (
	"fmt"
	"testing"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages/journaletv1"
)

// tell has the actor handle events, one after the other, and gives what it decided, shortly.
func tell(t *testing.T, a *Actor, events ...*journaletv1.Event) []string {
	t.Helper()
	var out []string
	for _, body := range events {
		e := actors.Event{Body: body}
		if err := a.Evolve(e); err != nil {
			t.Fatal(err)
		}
		err := a.Decide(actors.Input{Events: []actors.Event{e}}, func(d *journaletv1.Event) error {
			for uid, name := range map[string]string{
				d.GetAdmissionPendingPreemption().GetUid(): d.GetAdmissionPendingPreemption().GetFullName(), d.GetResizePendingPreemption().GetUid(): d.GetResizePendingPreemption().GetFullName(),
			} {
				if uid != "" && name != "/"+uid {
					t.Errorf("%s is called %q", uid, name)
				}
			}
			switch x := d.GetAdmissionDecided(); {
			case x.GetAdmitted():
				out = append(out, "admit "+x.GetUid())
			case x != nil:
				out = append(out, "reject "+x.GetUid()+" "+x.GetReason())
			case d.GetAdmissionPendingPreemption() != nil:
				out = append(out, fmt.Sprint("hold ", d.GetAdmissionPendingPreemption().GetUid(), d.GetAdmissionPendingPreemption().GetVictims()))
			case d.GetResizePendingPreemption() != nil:
				out = append(out, fmt.Sprint("hold resize ", d.GetResizePendingPreemption().GetUid(), d.GetResizePendingPreemption().GetVictims()))
			case d.GetResizeDecided().GetAllocated():
				out = append(out, "resize "+d.GetResizeDecided().GetUid())
			case d.GetResizeDecided() != nil:
				out = append(out, "defer "+d.GetResizeDecided().GetUid())
			}
			return a.Evolve(actors.Event{Body: d})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func started(milliCPU int64) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_AgentStarted{AgentStarted: &journaletv1.AgentStarted{
		Config: &journaletv1.AgentConfig{Allocatable: &journaletv1.NodeCapacity{MilliCpu: milliCPU, MemoryBytes: 1 << 30}},
	}}}
}

func asks(uid string, priority int32, milliCPU int64) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_AdmissionRequested{AdmissionRequested: &journaletv1.AdmissionRequested{
		Uid: uid, Name: uid, Priority: priority, Qos: journaletv1.QosClass_QOS_CLASS_BURSTABLE, Demand: &journaletv1.PodDemand{MilliCpu: milliCPU},
	}}}
}

func ended(uid string) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_PodTerminated{PodTerminated: &journaletv1.PodTerminated{Uid: uid}}}
}

func gone(uid string) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_PodFinished{PodFinished: &journaletv1.PodFinished{Uid: uid}}}
}

func TestAHeldPodIsRejectedWhereTheNodeHasBecomeTooSmall(t *testing.T) {
	a := New()
	got := fmt.Sprint(tell(t, a, started(2000), asks("low", 0, 1500), asks("high", 1, 1000), started(500), ended("low")))
	if want := "[admit low hold high[low] reject high OutOfcpu]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := len(a.state.PendingPreemption) + int(a.state.Preempting); n != 0 {
		t.Errorf("%d places are still kept", n)
	}
}

func TestThePlaceOfAHeldPodIsKeptInOrder(t *testing.T) {
	a := New()
	// What second needs is free when first has been given its place and low has ended; third would fit only without first.
	got := fmt.Sprint(tell(t, a, started(2000), asks("low", 0, 2000), asks("first", 2, 1000), asks("second", 0, 900), asks("third", 0, 200)))
	if want := "[admit low hold first[low] hold second[] reject third OutOfcpu]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := fmt.Sprint(tell(t, a, ended("low"))), "[admit first admit second]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWhoGoesWhileItIsHeldGivesItsPlaceBack(t *testing.T) {
	a := New()
	tell(t, a, started(2000), asks("low", 0, 2000), asks("first", 2, 1500))
	if got, want := fmt.Sprint(tell(t, a, asks("second", 0, 1500), gone("first"), asks("third", 0, 1500), ended("low"))),
		"[reject second OutOfcpu hold third[] admit third]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if name := a.state.Names["/first"]; name != "" {
		t.Errorf("its name is still %s's", name)
	}
}

func resizes(uid string, priority int32, milliCPU int64) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_ResizeRequested{ResizeRequested: &journaletv1.ResizeRequested{
		Uid: uid, Digest: fmt.Sprint(milliCPU), Priority: priority, Demand: &journaletv1.PodDemand{MilliCpu: milliCPU},
	}}}
}

func TestAHeldResizeTakesNoPlaceOfOthersAndLosesNone(t *testing.T) {
	a := New()
	got := fmt.Sprint(tell(t, a, started(2000), asks("critical", systemCritical, 500), asks("low", 0, 700), asks("lower", -1, 700),
		resizes("critical", systemCritical, 1000), asks("high", 5, 1000), resizes("high", 5, 1001)))
	if want := "[admit critical admit low admit lower hold resize critical[lower] hold high[low]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// The one who has its place waits for nobody else's end.
	if got, want := fmt.Sprint(tell(t, a, ended("low")), tell(t, a, ended("lower"))), "[resize critical] [admit high]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAHeldResizeWaitsOnWhereTheNodeHasBecomeTooSmall(t *testing.T) {
	a := New()
	got := fmt.Sprint(tell(t, a, started(2000), asks("critical", systemCritical, 500), asks("low", 0, 1500),
		resizes("critical", systemCritical, 1000), started(900), ended("low"), asks("other", 0, 400)))
	if want := "[admit critical admit low hold resize critical[low] defer critical admit other]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := fmt.Sprint(tell(t, a, gone("critical"), started(2000))), "[]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
