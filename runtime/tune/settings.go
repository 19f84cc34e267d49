package tune

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// maxStatusBytes bounds the JSON of a runtime's verbose status, maxConfigBytes a file of TOML and what `containerd
	// config dump` prints. One with a hundred runtime handlers has 100 KiB.
	maxStatusBytes = 1 << 20
	maxConfigBytes = 1 << 20
	// defaultPeriod is containerd's, for an empty text.
	defaultPeriod = time.Second
	// Rare is from when on sampling costs less than what else an idle node does: 2.5 millicores for 100 pods.
	Rare = time.Minute
	// Period is what a drop-in sets: containerd has no word for never, and divides by 0.
	Period = "24h"
	// microcoresPerPod is the CPU that containerd and the shim of one idle pod take for a sample each second: 100 idle
	// pods took 26 + 170 millicores with it and 4 + 45 without (docs/PERFORMANCE.md).
	microcoresPerPod = 1470
)

// Settings are what of containerd's configuration costs the node something that the agent does not need.
type Settings struct {
	// Samples reports whether this containerd reads statistics periodically: from 2.3 on. Period is how often.
	Samples bool
	Period  time.Duration
	// LogLevel is the log level of the configuration; "" if the configuration sets none or is not known.
	LogLevel string
}

// Sampling reports whether containerd reads statistics so often that it shows.
func (s Settings) Sampling() bool { return s.Samples && s.Period < Rare }

// Verbose reports whether containerd logs each call.
func (s Settings) Verbose() bool { return s.LogLevel == "debug" || s.LogLevel == "trace" }

// FromStatus returns the settings of a running containerd, from the configuration in its verbose status; LogLevel is
// not in it. The text may hold credentials of registries: it is neither kept nor shown.
func FromStatus(text string) (Settings, error) {
	var config map[string]any
	if text == "" {
		return Settings{}, errors.New("its status has no configuration")
	}
	if err := bounded.JSON([]byte(text), maxStatusBytes, &config); err != nil {
		// The error of a decoder may have a part of the text.
		if errors.Is(err, bounded.ErrTooLarge) {
			return Settings{}, fmt.Errorf("the configuration in its status: %w", err)
		}
		return Settings{}, errors.New("the configuration in its status is no JSON object")
	}
	if _, is := config["containerd"].(map[string]any); !is {
		return Settings{}, errors.New("the configuration in its status is not containerd's")
	}
	// Before 2.0 a number of this name was the period of the images' figures.
	period, samples := config["statsCollectPeriod"].(string)
	return settings(samples, period, "")
}

// fromDump returns the settings of a configuration as containerd prints it.
func fromDump(tree map[string]any) (Settings, error) {
	period, samples := at(tree, "plugins", runtimePlugin, periodKey).(string)
	level, _ := at(tree, "debug", "level").(string)
	return settings(samples, period, level)
}

func settings(samples bool, period, level string) (Settings, error) {
	s := Settings{Samples: samples, Period: defaultPeriod, LogLevel: strings.ToLower(level)}
	if period == "" {
		return s, nil
	}
	d, err := time.ParseDuration(period)
	if err != nil || d <= 0 {
		return s, fmt.Errorf("its %s is no duration", periodKey)
	}
	s.Period = d
	return s, nil
}

// Load is what containerd and its shims take.
type Load struct {
	// Pods is the number of shims. Each pod has one shim.
	Pods int
	// Millicores is the CPU of containerd and its shims; Measured, over which time. 0: not measured.
	Millicores int
	Measured   time.Duration
}

// Cost describes what sampling costs on a node with this load: an estimate, since it cannot be measured alone.
func (s Settings) Cost(l Load) string {
	a := microcores(s.Period)
	tenths := (a + 50) / 100
	each := fmt.Sprintf("%d.%d millicores", tenths/10, tenths%10)
	estimate := int(a) * l.Pods / 1000
	switch {
	case l.Pods == 0:
		return "no pod runs now, and each would cost some " + each
	case l.Measured == 0:
		return fmt.Sprintf("an estimated %d millicores for %d pods, at %s for each", estimate, l.Pods, each)
	case estimate >= l.Millicores:
		return fmt.Sprintf("a large part of the %d millicores that containerd and %d shims took over %s; "+
			"the estimate of %s a pod would be %d", l.Millicores, l.Pods, l.Measured, each, estimate)
	}
	return fmt.Sprintf("an estimated %d of the %d millicores that containerd and %d shims took over %s, at %s a pod",
		estimate, l.Millicores, l.Pods, l.Measured, each)
}

// microcores returns the cost of a pod that is sampled once a period.
func microcores(period time.Duration) int64 {
	return microcoresPerPod * int64(time.Second) / max(int64(period), int64(time.Millisecond))
}

// at returns the value at a path of tables; nil if there is no such value.
func at(tree map[string]any, path ...string) any {
	var value any = tree
	for _, key := range path {
		table, _ := value.(map[string]any)
		value = table[key]
	}
	return value
}
