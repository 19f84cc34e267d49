package config

import (
	"path/filepath"
	"testing"
)

func TestPodsAPIIsOnUnlessItsGateIsOff(t *testing.T) {
	for gates, want := range map[string]struct {
		off    bool
		others int
	}{
		"":                                {},
		"{}":                              {},
		"{PodsAPI: true}":                 {},
		"{PodsAPI: false}":                {off: true},
		"{AllBeta: false}":                {off: true, others: 1},
		"{AllBeta: false, PodsAPI: true}": {others: 1},
		"{NodeSwap: false, A: true}":      {others: 1},
	} {
		file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+"featureGates: "+gates+"\n")
		c, problems := mustLoad(t, "--config", file)
		if c.NoPodsAPI != want.off || len(problems) != want.others {
			t.Errorf("%s: off %v, want %v; remarks %v", gates, c.NoPodsAPI, want.off, problems)
		}
		if shown, off := c.gates()["PodsAPI"]; off != want.off || shown {
			t.Errorf("%s: /configz shows %v", gates, c.gates())
		}
	}
	if c, problems := mustLoad(t, "--feature-gates=PodsAPI=false"); !c.NoPodsAPI || len(problems) != 0 {
		t.Errorf("by a flag: off %v, remarks %v", c.NoPodsAPI, problems)
	}
}
