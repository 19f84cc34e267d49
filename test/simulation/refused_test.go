package simulation

import "testing"

// refusedShare is the part of the further seeds that are carried out with an agent that refuses what runs, too.
const refusedShare = 10

// TestWhatIsRefusedIsLeftAlone carries out plans with an API server. In the middle of each, an agent begins with an
// empty journal and refuses half of the pods that run.
func TestWhatIsRefusedIsLeftAlone(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 && !*allClustered {
		seeds = append(keptSeeds(t, "refused.txt"), partOf(seeds, refusedShare)...)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Refused(seed))
	}, nil)
}
