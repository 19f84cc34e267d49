package simulation

import (
	"cmp"
	"flag"
	"testing"
)

// tenantShare is the part of the further seeds that are carried out with a hostile tenant, too.
const tenantShare = 200

var (
	tenantFor  = flag.Duration("sim.tenant", 0, "how long a hostile tenant is at it, in virtual time; 0: as the seed says")
	allHostile = flag.Bool("sim.hostile", false, "all further seeds with a hostile tenant, not a part of them")
)

// TestOthersNoticeNoHostileTenant carries out plans with a tenant that does to the node what it can by pods of its own,
// and judges what others notice.
func TestOthersNoticeNoHostileTenant(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 && !*allHostile {
		seeds = append(keptSeeds(t, "hostile.txt"), partOf(seeds, tenantShare)...)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Hostile(seed, cmp.Or(*tenantFor, hostileFor(seed))))
	}, nil)
}
