package simulation

import "testing"

// claimedShare is the part of the further seeds that are carried out with claims, too.
const claimedShare = 5

// TestClaimsArePreparedWhileTheyAreUsed carries out plans with pods that have claims of DRA drivers.
func TestClaimsArePreparedWhileTheyAreUsed(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 {
		if !*allClaimed {
			seeds = partOf(seeds, claimedShare)
		}
		seeds = append(keptSeeds(t, "claimed.txt"), seeds...)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Claimed(seed))
	}, nil)
}
