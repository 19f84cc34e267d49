package simulation

import "testing"

// attachedShare is the part of the further seeds that are carried out with volumes of CSI drivers, too.
const attachedShare = 5

// TestVolumesOfDriversFollowTheirPods carries out plans with pods that have volumes of CSI drivers.
func TestVolumesOfDriversFollowTheirPods(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 {
		if !*allAttached {
			seeds = partOf(seeds, attachedShare)
		}
		seeds = append(keptSeeds(t, "attached.txt"), seeds...)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Attached(seed))
	}, nil)
}
