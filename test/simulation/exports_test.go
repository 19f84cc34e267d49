package simulation

import "testing"

// exportsShare is the part of the further seeds that are carried out with NFS volumes, too.
const exportsShare = 10

// TestNothingBreaksWithServersThatAreAway carries out plans where pods have NFS volumes. After a lost journal nothing
// knows that an orphan has an NFS volume: its tear-down waits in the lane of removals, where files of instances gather
// meanwhile.
func TestNothingBreaksWithServersThatAreAway(t *testing.T) {
	seeds := furtherSeeds()
	if *oneSeed < 0 && !*allExported {
		seeds = partOf(seeds, exportsShare)
	}
	nothingBreaks(t, seeds, func(t *testing.T, seed uint64) *Plan {
		t.Helper()
		return keepOnly(t, Exported(seed))
	}, []string{filesOfInstances})
}

func TestServersThatAreAwayDelayTheirPodsOnly(t *testing.T) {
	const pods = 20
	r := Run(exportsPlan(stream(1, "exports"), 1, pods), Options{NoEnd: true})
	if r.Violation != nil {
		t.Fatal(r.Report())
	}
	running := 0
	for _, o := range r.sim.world.objects {
		for _, c := range o.containers {
			if !c.alive() {
				continue
			}
			running++
			if hasVolume(c.manifest, exportVolume) {
				t.Errorf("%s of pod %s runs, and its export is not mounted", c.name, o.uid)
			}
		}
	}
	if running != pods {
		t.Errorf("%d containers run while servers are away, want all %d without exports", running, pods)
	}
}
