package simulation

import "testing"

// sizedShare is the part of the further seeds that are carried out with pods that have resources as a whole, too.
const sizedShare = 10

// TestNothingBreaksWhenPodsAreResizedAsAWhole carries out plans where most pods have spec.resources.
func TestNothingBreaksWhenPodsAreResizedAsAWhole(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 && !*allSized {
		seeds = partOf(seeds, sizedShare)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Sized(seed))
	}, nil)
}
