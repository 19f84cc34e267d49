package config

import (
	"maps"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// deadContainers are the kubelet's flags about dead containers, which it has declared obsolete. The agent keeps the
// newest dead instance of each container, which is what their defaults say (ADR 050).
type deadContainers struct {
	ttl               time.Duration
	perContainer, all int32
}

func (d *deadContainers) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&d.ttl, "minimum-container-ttl-duration", d.ttl, "the kubelet's; without effect")
	fs.Int32Var(&d.perContainer, "maximum-dead-containers-per-container", d.perContainer, "the kubelet's; without effect")
	fs.Int32Var(&d.all, "maximum-dead-containers", d.all, "the kubelet's; without effect")
	for _, name := range []string{
		"minimum-container-ttl-duration", "maximum-dead-containers-per-container", "maximum-dead-containers",
	} {
		_ = fs.MarkHidden(name)
	}
}

// problems returns one for each value that asks for something else.
func (d *deadContainers) problems(given func(string) bool) []Problem {
	var out []Problem
	differs := map[string]bool{
		"minimum-container-ttl-duration": d.ttl != 0, "maximum-dead-containers-per-container": d.perContainer != 1,
		"maximum-dead-containers": d.all >= 0,
	}
	for _, name := range slices.Sorted(maps.Keys(differs)) {
		if given(name) && differs[name] {
			out = append(out, Problem{File: "--" + name,
				Message: "ignored: the newest dead instance of each container is kept, and no other"})
		}
	}
	return out
}
