package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Signals whose hard thresholds are not allocatable to pods.
const (
	memoryAvailable = string(pressure.MemoryAvailable)
	nodefsAvailable = string(pressure.NodeFsAvailable)
)

// defaultEvictionHard are the kubelet's hard thresholds on Linux.
var defaultEvictionHard = map[string]string{
	memoryAvailable: "100Mi", nodefsAvailable: "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%",
	"imagefs.inodesFree": "5%",
}

// PressureTransition is how long a condition of the node holds after its last threshold (kubelet default: 5 min).
const PressureTransition = 5 * time.Minute

// Eviction are the thresholds below which pods are evicted. Hard ones of memory and nodefs also count for what is
// allocatable.
type Eviction struct {
	// Hard are thresholds by signal: a quantity, or a percentage of the capacity. nil: the kubelet's defaults.
	Hard map[string]string
	// MergeDefaults adds the default of each signal that Hard does not name.
	MergeDefaults bool
	// Soft are thresholds that act after SoftGrace, a duration by signal.
	Soft, SoftGrace map[string]string
	// MinReclaim is what must be available beyond a threshold that acted, by signal.
	MinReclaim map[string]string
	// Transition is how long a condition holds after its last threshold.
	Transition time.Duration
	// MaxPodGraceSeconds bounds the grace period of pods that a soft threshold ends.
	MaxPodGraceSeconds int32
}

// Thresholds returns the hard thresholds in effect. Configured ones replace all defaults, as in the kubelet.
func (e *Eviction) Thresholds() map[string]string {
	if e.Hard != nil && !e.MergeDefaults {
		return e.Hard
	}
	out := maps.Clone(defaultEvictionHard)
	maps.Copy(out, e.Hard)
	return out
}

// addReservedFlags adds the flags about what pods cannot have, which are the kubelet's.
func (c *Config) addReservedFlags(fs *pflag.FlagSet) {
	fs.StringToStringVar(&c.SystemReserved, "system-reserved", c.SystemReserved,
		"reserved for the system, such as cpu=200m,memory=500Mi")
	fs.StringToStringVar(&c.KubeReserved, "kube-reserved", c.KubeReserved,
		"reserved for node agents, such as cpu=200m,memory=500Mi")
	fs.StringVar(&c.ReservedSystemCPUs, "reserved-cpus", c.ReservedSystemCPUs,
		"CPUs reserved for the system, such as 0-1; they replace the cpu of --system-reserved and --kube-reserved")
}

// Names of the settings, for errors.
const (
	evictionHard       = "evictionHard (--eviction-hard)"
	evictionSoft       = "evictionSoft (--eviction-soft)"
	evictionSoftGrace  = "evictionSoftGracePeriod (--eviction-soft-grace-period)"
	evictionMinReclaim = "evictionMinimumReclaim (--eviction-minimum-reclaim)"
)

// evictionProblems returns a problem for each threshold that has no effect, and for reserved CPUs that nothing keeps
// free. from is where a field is set, if not by its flag.
func (c *Config) evictionProblems(from map[string]string) []Problem {
	var out []Problem
	add := func(field, flag, format string, args ...any) {
		out = append(out, Problem{File: cmp.Or(from[field], flag), Field: field, Message: fmt.Sprintf(format, args...)})
	}
	e, hard := &c.Eviction, c.Eviction.Thresholds()
	for _, signal := range slices.Sorted(maps.Keys(e.Soft)) {
		soft, off, err := parseAmount(e.Soft[signal])
		least, hardOff, hardErr := parseAmount(hard[signal])
		compares := hard[signal] != "" && err == nil && hardErr == nil && !off && !hardOff &&
			(soft.Percentage == 0) == (least.Percentage == 0)
		if compares && soft.Quantity <= least.Quantity && soft.Percentage <= least.Percentage {
			add("evictionSoft", "--eviction-soft",
				"%s: %s is not above the hard threshold %s, which acts first: it has no effect",
				signal, e.Soft[signal], hard[signal])
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(e.SoftGrace)) {
		if _, ok := e.Soft[signal]; !ok {
			add("evictionSoftGracePeriod", "--eviction-soft-grace-period", "%s has no soft threshold: it has no effect", signal)
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(e.MinReclaim)) {
		if _, soft := e.Soft[signal]; !soft && hard[signal] == "" {
			add("evictionMinimumReclaim", "--eviction-minimum-reclaim", "%s has no threshold: it has no effect", signal)
		}
	}
	follows := func(field, flag string, all map[string]string) {
		for _, signal := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(signal, "containerfs.") {
				add(field, flag,
					"%s follows the thresholds of nodefs or imagefs, as in the kubelet: this one has no effect", signal)
			}
		}
	}
	follows("evictionHard", "--eviction-hard", e.Hard)
	follows("evictionSoft", "--eviction-soft", e.Soft)
	if c.ReservedSystemCPUs != "" && c.Managers.CPUPolicy != cpuStatic {
		add("reservedSystemCPUs", "--reserved-cpus",
			"counts for what is allocatable; pods run on these CPUs, too, without cpuManagerPolicy: static and "+
				"strict-cpu-reservation")
	}
	return out
}

// Parsed returns the thresholds in effect. With pods, thresholds of the node's memory count for the cgroup of all pods,
// too. Thresholds of containerfs are added later, once the file systems are known.
func (e *Eviction) Parsed(pods bool) []pressure.Threshold {
	var out []pressure.Threshold
	hard := e.Thresholds()
	add := func(all map[string]string, graces map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			value, off, err := parseAmount(all[name])
			if off || err != nil || strings.HasPrefix(name, "containerfs.") {
				continue
			}
			t := pressure.Threshold{Signal: pressure.Signal(name), Value: value, Text: textOf(all[name])}
			if t.Soft = graces != nil; t.Soft {
				t.Grace, _ = time.ParseDuration(graces[name])
				// For the kubelet one without a grace period is hard. It may be a second one of its signal here.
				t.Soft = t.Grace > 0 || hard[name] != ""
			}
			if more, ok := e.MinReclaim[name]; ok {
				t.MinReclaim, _ = parseReclaim(more)
			}
			out = append(out, t)
			if pods && t.Grace == 0 && name == memoryAvailable {
				t.Signal = pressure.AllocatableMemoryAvailable
				out = append(out, t)
			}
		}
	}
	add(hard, nil)
	add(e.Soft, e.SoftGrace)
	return out
}

// textOf returns a quantity in its canonical form, empty for a percentage.
func textOf(threshold string) string {
	q, err := resource.ParseQuantity(threshold)
	if err != nil {
		return ""
	}
	return q.String()
}

// Config returns what the node needs to know.
func (e *Eviction) Config() *journaletv1.NodeEviction {
	return &journaletv1.NodeEviction{
		TransitionPeriod: durationpb.New(e.Transition),
		MaxPodGrace:      durationpb.New(time.Duration(e.MaxPodGraceSeconds) * time.Second),
	}
}

// validate returns all settings that the kubelet would refuse.
func (e *Eviction) validate() (errs []error) {
	each := func(name string, all map[string]string, check func(signal, value string) error) {
		for _, signal := range slices.Sorted(maps.Keys(all)) {
			if !pressure.Signal(signal).Valid() {
				errs = append(errs, fmt.Errorf("%s: there is no signal %q; want one of %s", name, signal, signalNames()))
				continue
			}
			if err := check(signal, all[signal]); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", name, signal, err))
			}
		}
	}
	each(evictionHard, e.Hard, func(_, value string) error {
		_, _, err := parseAmount(value)
		return err
	})
	each(evictionSoft, e.Soft, func(signal, value string) error {
		_, off, err := parseAmount(value)
		if _, ok := e.SoftGrace[signal]; !ok && !off {
			return errors.New("it has no grace period; add one to " + evictionSoftGrace)
		}
		return err
	})
	each(evictionSoftGrace, e.SoftGrace, func(_, value string) error {
		if d, err := time.ParseDuration(value); err != nil || d < 0 {
			return fmt.Errorf("found %q, want a duration such as 1m30s", value)
		}
		return nil
	})
	each(evictionMinReclaim, e.MinReclaim, func(_, value string) error {
		_, err := parseReclaim(value)
		return err
	})
	if e.Transition < 0 {
		errs = append(errs, errors.New("evictionPressureTransitionPeriod (--eviction-pressure-transition-period): "+
			"must not be negative"))
	}
	if e.MaxPodGraceSeconds < 0 {
		errs = append(errs, errors.New("evictionMaxPodGracePeriod (--eviction-max-pod-grace-period): must not be negative"))
	}
	return errs
}

func signalNames() string {
	var all []string
	for _, s := range pressure.Signals {
		all = append(all, string(s))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// parseAmount parses a threshold: a quantity, or a percentage of the capacity. off means that it is no threshold.
func parseAmount(threshold string) (amount pressure.Amount, off bool, err error) {
	number, percent := strings.CutSuffix(threshold, "%")
	if !percent {
		q, err := resource.ParseQuantity(threshold)
		if err != nil || q.Sign() <= 0 {
			return amount, false, fmt.Errorf("found %q, want a quantity above 0 such as 100Mi, or a percentage such as 10%%",
				threshold)
		}
		return pressure.Amount{Quantity: resources.Bytes(&q)}, false, nil
	}
	share, err := strconv.ParseFloat(number, 32)
	if err != nil || !(share >= 0 && share <= 100) { // NaN is neither
		return amount, false, fmt.Errorf("found %q, want a percentage from 0%% to 100%%", threshold)
	}
	// In the kubelet's precision: both publish the same number of bytes.
	return pressure.Amount{Percentage: float32(share) / 100}, number == "0" || number == "100", nil
}

// parseReclaim parses a minimum reclaim: other than a threshold, it may be a quantity of 0, or more than there is.
func parseReclaim(text string) (pressure.Amount, error) {
	bad := fmt.Errorf("found %q, want a quantity such as 100Mi, or a percentage above 0%%", text)
	number, percent := strings.CutSuffix(text, "%")
	if !percent {
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return pressure.Amount{}, bad
		}
		return pressure.Amount{Quantity: resources.Bytes(&q)}, nil
	}
	share, err := strconv.ParseFloat(number, 32)
	if err != nil || !(share > 0 && share <= maxReclaimPercent) { // NaN is neither
		return pressure.Amount{}, bad
	}
	return pressure.Amount{Percentage: float32(share) / 100}, nil
}

// maxReclaimPercent keeps sums of amounts far from what an integer holds. Beyond 100 it changes nothing.
const maxReclaimPercent = 1e6

// amountOf returns a threshold as an amount; 0 if the threshold is off.
func amountOf(threshold string, capacity int64) (int64, error) {
	amount, off, err := parseAmount(threshold)
	if off || err != nil {
		return 0, err
	}
	return amount.Of(capacity), nil
}

// withoutThresholds subtracts the hard thresholds of memory and storage.
func (c *Config) withoutThresholds(has, left Capacity) (Capacity, error) {
	all := c.Eviction.Thresholds()
	for signal, amounts := range map[string]struct {
		capacity int64
		left     *int64
	}{
		memoryAvailable: {has.MemoryBytes, &left.MemoryBytes},
		nodefsAvailable: {has.EphemeralStorageBytes, &left.EphemeralStorageBytes},
	} {
		threshold, ok := all[signal]
		if !ok || signal == nodefsAvailable && !c.LocalStorage {
			continue
		}
		amount, err := amountOf(threshold, amounts.capacity)
		if err != nil {
			return left, fmt.Errorf("evictionHard: %s: %w", signal, err)
		}
		*amounts.left = minus(*amounts.left, amount)
	}
	return left, nil
}

// reservedCPUs returns how many CPUs reservedSystemCPUs names, false if it is not set.
func (c *Config) reservedCPUs(root string) (int, bool, error) {
	if c.ReservedSystemCPUs == "" {
		return 0, false, nil
	}
	reserved, err := c.parseReservedCPUs()
	if err != nil {
		return 0, false, err
	}
	online, err := onlineCPUs(root)
	if err != nil {
		return 0, false, err
	}
	if !reserved.IsSubsetOf(online) {
		return 0, false, fmt.Errorf("reservedSystemCPUs (--reserved-cpus): %s are not all among the CPUs of this machine, "+
			"%s; name those to reserve", reserved, online)
	}
	return reserved.Size(), true, nil
}

func (c *Config) parseReservedCPUs() (cpuset.CPUSet, error) {
	set, err := cpuset.Parse(c.ReservedSystemCPUs)
	if err != nil || set.IsEmpty() {
		return set, fmt.Errorf("reservedSystemCPUs (--reserved-cpus): found %q, want a list such as 0-1,8",
			c.ReservedSystemCPUs)
	}
	return set, nil
}
