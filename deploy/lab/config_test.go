package lab

import (
	"os"
	"regexp"
	"testing"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/tune"
	"github.com/journalet/journalet/test/must"
)

// In the older format the setting is another, and its releases do not sample.
func TestTheLabsContainerdDoesNotSample(t *testing.T) {
	for file, want := range map[string]any{"containerd-v3.toml.in": tune.Period, "containerd-v2.toml.in": nil} {
		text, err := os.ReadFile("config/" + file)
		must.OK(t, err)
		var config struct {
			Plugins map[string]map[string]any `toml:"plugins"`
		}
		must.OK(t, bounded.TOML(text, 1<<20, &config))
		for name, section := range config.Plugins {
			is := regexp.MustCompile(`^io\.containerd\.(cri\.v1\.runtime|grpc\.v1\.cri)$`).MatchString(name)
			if is && section["stats_collect_period"] != want {
				t.Errorf("%s: %v, want %v", file, section["stats_collect_period"], want)
			}
		}
	}
}
