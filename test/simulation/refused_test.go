package simulation

import "testing"

// refusedShare is the part of the further seeds that are carried out with an agent that refuses what runs, too.
const refusedShare = 10

// TestWhatIsRefusedIsLeftAlone carries out plans with an API server in which an agent with an empty journal refuses a
// part of what runs.
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
