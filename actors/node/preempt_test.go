package node

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// expect has the actor handle events, one after the other, and compares its decisions, in short, with want.
func expect(t *testing.T, a *Actor, want string, events ...*journaletv1.Event) {
	t.Helper()
	var out []string
	for _, body := range events {
		e := actors.Event{Body: body}
		if err := a.Evolve(e); err != nil {
			t.Fatal(err)
		}
		err := actors.Decide(a, actors.Input{Events: []actors.Event{e}}, func(d *journaletv1.Event) error {
			admission, resize := d.GetAdmissionPendingPreemption(), d.GetResizePendingPreemption()
			for uid, name := range map[string]string{
				admission.GetUid(): admission.GetFullName(), resize.GetUid(): resize.GetFullName(),
			} {
				if uid != "" && name != "/"+uid {
					t.Errorf("pod %s has the full name %q", uid, name)
				}
			}
			switch x := d.GetAdmissionDecided(); {
			case x.GetAdmitted():
				out = append(out, "admit "+x.GetUid())
			case x != nil:
				out = append(out, "reject "+x.GetUid()+" "+x.GetReason())
			case admission != nil:
				out = append(out, fmt.Sprint("pending ", admission.GetUid(), admission.GetVictims()))
			case resize != nil:
				out = append(out, fmt.Sprint("pending resize ", resize.GetUid(), resize.GetVictims()))
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
	if got := strings.Join(out, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func started(milliCPU int64) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.AgentStarted{
		Config: &journaletv1.AgentConfig{Allocatable: &journaletv1.NodeCapacity{MilliCpu: milliCPU, MemoryBytes: 1 << 30}},
	})
}

func admission(uid string, priority int32, milliCPU int64) *journaletv1.Event {
	q := &journaletv1.AdmissionRequested{
		Uid: uid, Name: uid, Priority: priority, Qos: journaletv1.QosClass_QOS_CLASS_BURSTABLE,
		Demand: &journaletv1.PodDemand{MilliCpu: milliCPU},
	}
	return messages.NewEvent(q)
}

func terminated(uid string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodTerminated{Uid: uid})
}

func finished(uid string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.PodFinished{Uid: uid})
}

func TestPendingPodIsRejectedWhenNodeShrinks(t *testing.T) {
	a := New()
	expect(t, a, "admit low, pending high[low], reject high OutOfcpu",
		started(2000), admission("low", 0, 1500), admission("high", 1, 1000), started(500), terminated("low"))
	if n := len(a.state.PendingPreemption) + int(a.state.Preempting); n != 0 {
		t.Errorf("%d places are still reserved", n)
	}
}

func TestPendingPodsAreAdmittedInOrder(t *testing.T) {
	a := New()
	// second fits once low has terminated and first has its place; third would fit only without first.
	expect(t, a, "admit low, pending first[low], pending second[], reject third OutOfcpu",
		started(2000), admission("low", 0, 2000), admission("first", 2, 1000), admission("second", 0, 900),
		admission("third", 0, 200))
	expect(t, a, "admit first, admit second", terminated("low"))
}

func TestFinishedPendingPodFreesItsPlace(t *testing.T) {
	a := New()
	expect(t, a, "admit low, pending first[low]", started(2000), admission("low", 0, 2000), admission("first", 2, 1500))
	expect(t, a, "reject second OutOfcpu, pending third[], admit third",
		admission("second", 0, 1500), finished("first"), admission("third", 0, 1500), terminated("low"))
	if name := a.state.Names["/first"]; name != "" {
		t.Errorf("its name is still held by %q", name)
	}
}

func resize(uid string, priority int32, milliCPU int64) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.ResizeRequested{
		Uid: uid, Digest: fmt.Sprint(milliCPU), Priority: priority, Demand: &journaletv1.PodDemand{MilliCpu: milliCPU},
	})
}

func TestPendingResizeKeepsItsPlaceAndTakesNoOther(t *testing.T) {
	a := New()
	expect(t, a, "admit critical, admit low, admit lower, pending resize critical[lower], pending high[low]",
		started(2000), admission("critical", systemCritical, 500), admission("low", 0, 700), admission("lower", -1, 700),
		resize("critical", systemCritical, 1000), admission("high", 5, 1000), resize("high", 5, 1001))
	// A pod whose place is free waits for no other victim.
	expect(t, a, "resize critical", terminated("low"))
	expect(t, a, "admit high", terminated("lower"))
}

func TestPendingResizeIsDeferredWhenNodeShrinks(t *testing.T) {
	a := New()
	expect(t, a, "admit critical, admit low, pending resize critical[low], defer critical, admit other",
		started(2000), admission("critical", systemCritical, 500), admission("low", 0, 1500),
		resize("critical", systemCritical, 1000), started(900), terminated("low"), admission("other", 0, 400))
	expect(t, a, "", finished("critical"), started(2000))
}

// What is used after the victims have ended is the same as if all pods were searched, also after a restore.
func TestVictimsAreThoseOfTheState(t *testing.T) {
	a := New()
	expect(t, a, "admit a, admit b", started(1000), admission("a", 1, 400), admission("b", 1, 400))
	check := func(want int) {
		t.Helper()
		again := New()
		b, err := proto.Marshal(a.State())
		if err != nil || again.Restore(b) != nil {
			t.Fatal("the actor's own state cannot be restored")
		}
		used := a.usedAfterVictims()
		if len(a.victims) != want || !maps.Equal(a.victims, again.victims) || used != again.usedAfterVictims() {
			t.Errorf("victims %v, after a restore %v, want %d", a.victims, again.victims, want)
		}
	}
	check(0)
	expect(t, a, "pending c[b a]", admission("c", 2, 900))
	check(2)
	expect(t, a, "", terminated("a"))
	check(1)
	expect(t, a, "admit c", terminated("b"))
	check(0)
}

func TestAdmissionBesideAVictimCostsNoSearchOfAllPods(t *testing.T) {
	cost := func(pods int) float64 {
		a := New()
		expect(t, a, "", started(int64(pods)*10))
		for i := range pods {
			expect(t, a, fmt.Sprint("admit p", i), admission(fmt.Sprint("p", i), 1, 10))
		}
		expect(t, a, fmt.Sprintf("pending v[p%d]", pods-1), admission("v", 2, 10))
		return testing.AllocsPerRun(10, func() { a.usedAfterVictims() })
	}
	if few, many := cost(10), cost(1000); many > few {
		t.Errorf("%v allocations with 10 pods, %v with 1000", few, many)
	}
}

// inCluster has an event about a node with an API server, or about a pod of that server.
func inCluster(e *journaletv1.Event) *journaletv1.Event {
	if q := e.GetAdmissionRequested(); q != nil {
		q.SharesName = true
	} else {
		e.GetAgentStarted().Config.Sources = []string{messages.APISource, messages.FileSource}
	}
	return e
}

func TestInAClusterOnlyCriticalPodsPreempt(t *testing.T) {
	a := New()
	expect(t, a, "admit web, reject mid OutOfcpu, pending critical[web]", inCluster(started(1000)),
		inCluster(admission("web", 0, 600)), inCluster(admission("mid", 1000, 600)),
		inCluster(admission("critical", systemCritical, 600)))
}

func TestInAClusterAPodOfAFileIsCritical(t *testing.T) {
	a := New()
	expect(t, a, "admit proxy, reject critical OutOfcpu, reject other OutOfcpu, admit web", inCluster(started(1000)),
		admission("proxy", 0, 600), inCluster(admission("critical", systemCritical, 600)), admission("other", 0, 600),
		inCluster(admission("web", 1000, 400)))
	expect(t, a, "pending log[web], pending higher[proxy]", admission("log", -1, 400), admission("higher", 1, 600))
}
