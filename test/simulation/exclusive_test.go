package simulation

import "testing"

// exclusiveShare is the part of the further seeds that are carried out with exclusive resources, too.
const exclusiveShare = 10

// TestNothingIsGivenTwice carries out plans with a node that gives exclusive CPUs and memory to containers, and in the
// end has a few pods run on it while it is idle.
func TestNothingIsGivenTwice(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 && !*allExclusive {
		seeds = append(keptSeeds(t, "exclusive.txt"), partOf(seeds, exclusiveShare)...)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Exclusive(seed))
	}, nil)
}

// TestNothingIsGivenTwiceInAKubeletsPlace carries out the same plans where a kubelet had run the pods first.
func TestNothingIsGivenTwiceInAKubeletsPlace(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 && !*allExclusive {
		seeds = append(keptSeeds(t, "left.txt"), partOf(seeds, exclusiveShare)...)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, InAKubeletsPlace(seed))
	}, nil)
}
