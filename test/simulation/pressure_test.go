package simulation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	limits "github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// pressedShare is the part of the further seeds that are carried out with pressure, too.
const pressedShare = 10

// TestNothingBreaksUnderPressure carries out plans with a node that runs short of memory, storage, inodes and
// processes, and in the end a few cycles of pressure without faults (-sim.cycles).
func TestNothingBreaksUnderPressure(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 && !*allPressed {
		seeds = append(keptSeeds(t, "pressed.txt"), partOf(seeds, pressedShare)...)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Pressed(seed))
	}, nil)
}

// TestAnEndThatComesTooLateEndsNoOtherIncarnation: the node decides on record 1 to end a pod, and that is stored as
// record 3. In the second case the pod has finished by record 2, and requested its next admission.
func TestAnEndThatComesTooLateEndsNoOtherIncarnation(t *testing.T) {
	const uid = "pod"
	for _, late := range []bool{false, true} {
		stored := &journal{stored: []*journaletv1.Record{{Seq: 1}, {Seq: 2}, {Seq: 3}}}
		j := newJudge(&sim{journal: stored, clock: &virtualTime{}})
		j.uptimes, j.rebuilding = make([]time.Duration, 3), true
		h := j.history(uid)
		if h.incarnation, h.holdsShare = 1, !late; late {
			h.incarnation, h.finishedBy = 2, 2
		}
		j.evictedForNode(
			&journaletv1.Record{Seq: 3, Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: 1}}},
			&journaletv1.PodEvictionDecided{Uid: uid})
		for what, is := range map[string]bool{
			"it ends": h.endsBy > 0, "it is evicted": h.evictedAs > 0, "it may be stopped": j.book.ending[uid],
			"the node waits for it": j.pressure.victim != "",
		} {
			if is == late {
				t.Errorf("finished before: %t, and %s: %t", late, what, is)
			}
		}
	}
}

// TestTheNodeWaitsForWhatItKnowsThatAPodHolds: the pod reported on record 2 that it holds nothing any more.
func TestTheNodeWaitsForWhatItKnowsThatAPodHolds(t *testing.T) {
	const uid = "pod"
	for name, c := range map[string]struct {
		shownBy                           uint64
		disk, hadVolume, inManifest, ends bool
		want                              string
	}{
		"a container that was shown":          {shownBy: 2, want: "c1"},
		"one that the runtime had not listed": {shownBy: 3},
		"a volume of its manifest":            {disk: true, hadVolume: true, inManifest: true, want: scratchVolume},
		"one of a manifest that was lost":     {disk: true, hadVolume: true},
		"one from after the loss":             {disk: true, want: scratchVolume},
		"one that outlived its pod":           {disk: true, hadVolume: true, ends: true, want: scratchVolume},
	} {
		s := &sim{clock: &virtualTime{}}
		j := newJudge(s)
		s.world = newWorld(s.clock, 1, j)
		h := j.history(uid)
		h.allocatedAs, h.hadVolume = &corev1.Pod{}, c.hadVolume
		if c.inManifest {
			h.allocatedAs.Spec.Volumes = []corev1.Volume{{Name: scratchVolume}}
		}
		if c.disk {
			s.world.files.disk[uid] = map[string]string{scratchVolume: "set up"}
		}
		if c.shownBy > 0 {
			x := &container{id: "c1", uid: uid, state: exited}
			o := s.world.objectsOf(uid)
			o.containers = append(o.containers, x)
			j.instanceCreated(x)
			h.shown[x.id], j.book.byID[x.id].shownBy = true, c.shownBy
		}
		if c.ends {
			j.bookPressure(nil, messages.NewEvent(&journaletv1.PodFinished{Uid: uid}))
		}
		if got := j.holds(uid, limits.NodeFsAvailable, 2); got != c.want {
			t.Errorf("%s: it holds %q, want %q", name, got, c.want)
		}
	}
}
