package iptables

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/journalet/journalet/runtime/program"
)

const (
	// period is the pause between two checks whether the chains are still there (kubelet: 1 min).
	period = time.Minute
	// syncTimeout bounds the wait for the programs of one family. The next check waits for them.
	syncTimeout = 30 * time.Second
	// lockSeconds is how long a program waits for the lock that all of them share (kubelet: 5 s).
	lockSeconds = 5
)

// Tables are the rules of one family of addresses.
type Tables interface {
	ChainExists(table, chain string) (bool, error)
	NewChain(table, chain string) error
	InsertUnique(table, chain string, pos int, rule ...string) error
	AppendUnique(table, chain string, rule ...string) error
}

// Family is one family of addresses.
type Family struct {
	Name   string // "IPv4" or "IPv6"
	IPv6   bool
	Tables Tables
}

// Options configure a Driver.
type Options struct {
	// Families returns the families that this machine has programs for; nil: the families of Machine.
	Families func() ([]Family, error)
	// After is the clock.
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Driver keeps the chains.
type Driver struct{ o Options }

// New returns a driver that Run runs.
func New(o Options) *Driver {
	if o.Families == nil {
		o.Families = Machine
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{o: o}
}

// Machine returns the families that this machine has programs for.
func Machine() ([]Family, error) {
	var out []Family
	var errs []error
	for _, f := range []Family{{Name: "IPv4"}, {Name: "IPv6", IPv6: true}} {
		name := "iptables"
		if f.IPv6 {
			name = "ip6tables"
		}
		t, err := newTables(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.Tables = t
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// Run keeps the chains until ctx ends. A machine without iptables is reported once: nothing there needs them.
func (d *Driver) Run(ctx context.Context) error {
	families, err := d.o.Families()
	if err != nil {
		why := "error"
		if errors.Is(err, program.ErrNotFound) {
			why = "not installed"
		}
		d.o.Log.Info("no iptables on this machine: the chains KUBE-IPTABLES-HINT and KUBE-FIREWALL are not kept",
			why, err)
		return nil
	}
	states := make([]state, len(families))
	for {
		for i := range families {
			d.within(ctx, &families[i], &states[i])
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.o.After(period):
		}
	}
}

// state is what is known of a family.
type state struct {
	// under is open while programs run.
	under chan error
	// reported is the last error, so that it is reported once.
	reported string
}

// within keeps the chains of a family, and waits so long for its programs.
func (d *Driver) within(ctx context.Context, f *Family, s *state) {
	if s.under == nil {
		done := make(chan error, 1)
		s.under = done
		go func() { done <- f.keep() }()
	}
	var err error
	select {
	case err = <-s.under:
		s.under = nil
	case <-ctx.Done():
		return
	case <-d.o.After(syncTimeout):
		err = errors.New("iptables does not respond")
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != s.reported && err != nil {
		d.o.Log.Warn("chains for other components are missing; trying again each minute", "family", f.Name, "error", err)
	}
	s.reported = text
}
