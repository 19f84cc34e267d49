package simulation

import "testing"

// unsteadyShare is the part of the further seeds that are carried out with volumes that go, too.
const unsteadyShare = 10

// TestNothingBreaksWhereVolumesGo carries out plans where pods lose their volumes: each start checks what it mounts,
// and has it set up again (ADR 080).
func TestNothingBreaksWhereVolumesGo(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 {
		seeds = partOf(seeds, unsteadyShare)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Unsteady(seed))
	}, nil)
}
