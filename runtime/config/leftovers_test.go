package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/test/must"
)

func TestFlagsAboutDeadContainersAreTakenWithAWarning(t *testing.T) {
	for line, want := range map[string]int{
		"--minimum-container-ttl-duration=0 --maximum-dead-containers=-1 --maximum-dead-containers-per-container=1": 0,
		"--minimum-container-ttl-duration=1m --maximum-dead-containers=5 --maximum-dead-containers-per-container=2": 3,
	} {
		c := Defaults()
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		c.AddFlags(fs)
		must.OK(t, fs.Parse(strings.Fields(line)))
		problems, err := c.Load(fs)
		must.OK(t, err)
		if len(problems) != want {
			t.Errorf("%s: %v, want %d problems", line, problems, want)
		}
	}
}
