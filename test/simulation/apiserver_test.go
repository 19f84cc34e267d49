package simulation

import (
	"testing"
)

// clusterShare is the part of the further seeds that are carried out with an API server, too.
const clusterShare = 5

// keptClustered is the number of seeds, from 1 on, that `make sim` carries out without SEEDS: of fresh ones some still
// fail (docs/SIMULATION.md).
const keptClustered = 25

// TestNothingBreaksInACluster carries out plans with an API server: kept ones within a time, else further ones, too.
func TestNothingBreaksInACluster(t *testing.T) {
	seeds := furtherSeeds()
	switch {
	case *oneSeed >= 0 || *allClustered:
	case *duration > 0:
		seeds = keptSeeds(t, "clustered.txt")
		for seed := range uint64(keptClustered) {
			seeds = append(seeds, seed+1)
		}
	default:
		seeds = append(keptSeeds(t, "clustered.txt"), partOf(seeds, clusterShare)...)
	}
	nothingBreaks(t, seeds, clusteredPlan, nil)
}

func clusteredPlan(t *testing.T, seed uint64) *Plan {
	t.Helper()
	return keepOnly(t, Clustered(seed))
}
