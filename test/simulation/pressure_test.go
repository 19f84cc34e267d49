package simulation

import "testing"

// pressedShare is the part of the fresh seeds that are carried out with pressure, too.
const pressedShare = 10

// TestNothingBreaksUnderPressure carries out plans with a node that runs short of memory, storage, inodes and
// processes, and in the end a few cycles of pressure without faults (-sim.cycles).
func TestNothingBreaksUnderPressure(t *testing.T) {
	seeds := freshSeeds()
	if *oneSeed < 0 && !*allPressed {
		seeds = append(keptSeeds(t, "pressed.txt"), seeds[:(len(seeds)+pressedShare-1)/pressedShare]...)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Pressed(seed))
	}, nil)
}
