package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
)

// replayWhatIf prints what would be decided otherwise under another configuration.
func (a *app) replayWhatIf(ctx context.Context, r history.Reader, o replayOptions) error {
	change, err := a.otherConfig(o)
	if err != nil {
		return err
	}
	f, err := replay.WhatIf(ctx, r, change, replay.Options{Progress: a.progress("replayed", "records")})
	a.endProgress()
	if err != nil {
		return err
	}
	if a.output != formatText {
		err = printValue(a.out, a.output, f)
	} else {
		a.printForecast(f)
	}
	if err == nil && f.Differing > 0 {
		err = errDiverged
	}
	return err
}

// otherConfig returns a function that changes the recorded configuration as --with-config and --with-allocatable say.
func (a *app) otherConfig(o replayOptions) (func(*journaletv1.AgentConfig), error) {
	var changes []func(*journaletv1.AgentConfig)
	if o.config != "" {
		cfg := config.Defaults()
		cfg.ConfigFile = o.config
		problems, err := cfg.Load(nil)
		if err == nil {
			err = cfg.Validate()
		}
		if err != nil {
			return nil, usageError{err}
		}
		for _, p := range problems {
			a.notice(fmt.Sprintf("%s: %s: %s", p.File, p.Field, p.Message))
		}
		if (len(cfg.SystemReserved)+len(cfg.KubeReserved) > 0 || cfg.Eviction.Hard != nil || cfg.ReservedSystemCPUs != "") &&
			o.allocatable == "" {
			a.notice("what the file reserves is left out: the journal holds what is allocatable to pods, not the node's " +
				"capacity; give what would be left with --with-allocatable")
		}
		if cfg.UserNamespaceIDs != config.Defaults().UserNamespaceIDs {
			a.notice("userNamespaces of the file is left out: which ids pods share is the node's matter")
		}
		if cfg.PodsPerCore > 0 {
			a.notice("podsPerCore of the file is left out: the journal does not hold the number of CPUs; set maxPods")
		}
		changes = append(changes, func(c *journaletv1.AgentConfig) {
			// As runtime/agent does, for the fields of a KubeletConfiguration. The concurrency of calls is a flag.
			c.MaxPods, c.PullConcurrency = uint32(max(0, cfg.MaxPods)), uint32(max(1, cfg.MaxParallelImagePulls))
			c.MaxContainerBackOff = durationpb.New(cfg.MaxContainerRestartPeriod)
			c.AllowedUnsafeSysctls, c.CpuQuota = cfg.AllowedUnsafeSysctls, cfg.RecordedCPUQuota()
			if !cfg.LocalStorage && c.Allocatable != nil {
				c.Allocatable.EphemeralStorageBytes = 0
			}
		})
	}
	if o.allocatable != "" {
		set, err := parseAllocatable(o.allocatable)
		if err != nil {
			return nil, usageError{err}
		}
		changes = append(changes, set)
	}
	return func(c *journaletv1.AgentConfig) {
		for _, change := range changes {
			change(c)
		}
	}, nil
}

// parseAllocatable parses cpu=4,memory=8Gi,ephemeral-storage=20Gi; what is not given stays.
func parseAllocatable(s string) (func(*journaletv1.AgentConfig), error) {
	amounts := map[string]int64{}
	for _, part := range strings.Split(s, ",") {
		name, text, _ := strings.Cut(part, "=")
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("--with-allocatable: found %q, want cpu=4,memory=8Gi,ephemeral-storage=20Gi", part)
		}
		switch name {
		case "cpu":
			amounts[name] = q.MilliValue()
		case "memory", "ephemeral-storage":
			amounts[name] = q.Value()
		default:
			return nil, fmt.Errorf("--with-allocatable: found %q, want cpu, memory or ephemeral-storage", name)
		}
	}
	return func(c *journaletv1.AgentConfig) {
		if c.Allocatable == nil {
			c.Allocatable = &journaletv1.NodeCapacity{}
		}
		for name, field := range map[string]*int64{
			"cpu": &c.Allocatable.MilliCpu, "memory": &c.Allocatable.MemoryBytes,
			"ephemeral-storage": &c.Allocatable.EphemeralStorageBytes,
		} {
			if n, ok := amounts[name]; ok {
				*field = n
			}
		}
	}, nil
}

func (a *app) printForecast(f *replay.Forecast) {
	fmt.Fprintf(a.out, "Records %d to %d, decided again under another configuration:\n", f.First, f.Last)
	if len(f.Config) == 0 {
		fmt.Fprintln(a.out, "  it is that of the newest start in the journal")
	}
	for _, x := range f.Config {
		fmt.Fprintf(a.out, "  %s: %s, was %s\n", x.Path, x.To, x.From)
	}
	if f.Missing > 0 {
		fmt.Fprintf(a.out, "Left out: %d actors of which records or manifests are not there.\n", f.Missing)
	}
	if f.Differing == 0 {
		fmt.Fprintf(a.out, "No decision would differ, on %d records handled.\n", f.Steps)
		return
	}
	fmt.Fprintf(a.out, "Decisions would differ on %d of %d records handled, of %d actors:\n", f.Differing, f.Steps,
		f.Actors)
	for _, k := range f.Kinds {
		fmt.Fprintf(a.out, "  %-24s %d not taken, %d taken besides, %d with other fields\n", k.Event, k.Dropped, k.Added,
			k.Changed)
	}
	fmt.Fprintln(a.out, "The first difference of each actor; what follows it may be a consequence that this replay, "+
		"which stays on\nwhat was recorded, does not show:")
	for i := range f.Changes {
		if i == shownDivergences {
			fmt.Fprintf(a.out, "  and %d more; -o json lists up to %d\n", f.Actors-i, replay.MaxDivergences)
			return
		}
		a.printChange(&f.Changes[i])
	}
}

func (a *app) printChange(c *replay.Change) {
	who := c.Actor
	if c.Pod != "" {
		who += " (" + c.Pod + ")"
	}
	fmt.Fprintf(a.out, "  #%d %s %s, because #%d", c.Seq, c.Time.Format("2006-01-02T15:04:05Z"), who, c.Cause)
	if c.Later > 0 {
		fmt.Fprintf(a.out, ", and on %d later records", c.Later)
	}
	fmt.Fprintln(a.out)
	if c.Error != "" {
		fmt.Fprintf(a.out, "    it could not decide: %s\n", c.Error)
	}
	for _, text := range c.Dropped {
		fmt.Fprintf(a.out, "    not: %s\n", text)
	}
	for _, text := range c.Added {
		fmt.Fprintf(a.out, "    but: %s\n", text)
	}
	for _, x := range c.Changed {
		fmt.Fprintf(a.out, "    %s: %s, was %s\n", x.Path, x.To, x.From)
	}
}
