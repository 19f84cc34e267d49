package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// retryFirst and retryMax bound the pause before another attempt to reach logind. The kubelet waits 1 s.
	retryFirst = time.Second
	retryMax   = 30 * time.Second
	// reloadTries and reloadPause bound the wait until logind has read its configuration again: 5 s in all.
	reloadTries = 50
	reloadPause = 100 * time.Millisecond
	// DropIn is the file in ConfigDir that lengthens the delay that logind allows.
	DropIn = "99-journalet.conf"
	// ConfigDir is logind's directory of drop-ins.
	ConfigDir = "/etc/systemd/logind.conf.d"
)

// Logind is the part of systemd-logind that the driver uses.
type Logind interface {
	// InhibitDelay returns how long a lock can delay a shutdown.
	InhibitDelay() (time.Duration, error)
	// Reload has logind read its configuration again, some time later.
	Reload() error
	// Inhibit takes a lock that delays shutdowns until it is closed.
	Inhibit() (io.Closer, error)
	// ShuttingDown reports whether a shutdown has been announced.
	ShuttingDown() (bool, error)
	// Announced receives true for each announced shutdown, and false for a cancelled one. It is closed when the
	// connection is lost.
	Announced() <-chan bool
	// Close closes the connection. Locks stay.
	Close() error
}

// Options configure a driver. All but ConfigDir and Log must be set.
type Options struct {
	// Dial connects to logind.
	Dial func(context.Context) (Logind, error)
	// Period is how long the pods need at most, in all groups together.
	Period time.Duration
	// ConfigDir is where the drop-in is written; empty: ConfigDir.
	ConfigDir string
	// RootDir is the agent's: the drop-in says whose it is.
	RootDir string
	// BootID is the machine's: a shutdown of an earlier boot is over.
	BootID string
	// Record records ShutdownSignaled.
	Record func(context.Context, *journaletv1.ShutdownSignaled) error
	Log    *slog.Logger
}

// Driver delays shutdowns.
type Driver struct {
	o Options
	// recorded is what was recorded last. ended reports that the node has no pod left to end since.
	recorded, ended bool
	done            chan struct{}
	lock            io.Closer
}

// New returns a driver that Run runs.
func New(o Options) *Driver {
	if o.ConfigDir == "" {
		o.ConfigDir = ConfigDir
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Driver{o: o, done: make(chan struct{}, 1)}
}

// Seed passes in what the journal has: the shutdown that was recorded last, in this boot, and whether all pods ended.
func (d *Driver) Seed(active, complete bool) { d.recorded, d.ended = active, active && complete }

// Stored passes in a stored record: the end of the last pod releases the lock.
func (d *Driver) Stored(rec *journaletv1.Record) {
	for _, e := range messages.Events(rec) {
		if p := e.GetDrainProgressed(); p.GetShutdown() && len(p.GetWaitingFor()) == 0 {
			select {
			case d.done <- struct{}{}:
			default:
			}
		}
	}
}

// Run delays shutdowns until ctx ends. A machine without logind is reported and tried again.
func (d *Driver) Run(ctx context.Context) error {
	defer d.release()
	pause, reported := retryFirst, ""
	for {
		begun, err := d.watch(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if begun {
			pause, reported = retryFirst, ""
		}
		if text := err.Error(); text != reported {
			d.o.Log.Warn("shutdowns of the machine are not delayed for now; trying again", "error", err)
			reported = text
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, retryMax)
	}
}

// watch takes the lock and records announcements until the connection is lost. begun reports whether it got so far.
func (d *Driver) watch(ctx context.Context) (begun bool, err error) {
	l, err := d.o.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := d.lengthen(ctx, l); err != nil {
		d.o.Log.Warn("pods may have less time at a shutdown than is configured", "error", err)
	}
	// The lock comes first: a shutdown that is announced after it waits.
	locked := d.inhibit(l)
	active, err := l.ShuttingDown()
	if err != nil {
		return false, err
	}
	if locked != nil && !active {
		return false, locked
	}
	if err := d.signaled(ctx, l, active); err != nil {
		return false, err
	}
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case active, ok := <-l.Announced():
			if !ok {
				return true, errors.New("the connection to logind is lost")
			}
			if err := d.signaled(ctx, l, active); err != nil {
				return true, err
			}
		case <-d.done:
			if d.recorded {
				d.ended = true
				d.o.Log.Info("all pods have ended: the machine may shut down")
				d.release()
			}
		}
	}
}

// signaled records a change. A shutdown that is cancelled needs a lock for the next one.
func (d *Driver) signaled(ctx context.Context, l Logind, active bool) error {
	if active && d.ended {
		d.release() // an earlier run of the agent ended all pods
	}
	if active == d.recorded {
		return nil
	}
	if !active {
		if err := d.inhibit(l); err != nil {
			return err
		}
	}
	d.o.Log.Info("the machine announces a shutdown, or that it is cancelled", "shutdown", active)
	d.recorded, d.ended = active, false
	return d.o.Record(ctx, &journaletv1.ShutdownSignaled{Active: active})
}

// inhibit takes a lock in place of the one before.
func (d *Driver) inhibit(l Logind) error {
	lock, err := l.Inhibit()
	if err != nil {
		return err
	}
	d.release()
	d.lock = lock
	return nil
}

func (d *Driver) release() {
	if d.lock == nil {
		return
	}
	if err := d.lock.Close(); err != nil {
		d.o.Log.Warn("cannot release the lock that delays shutdowns", "error", err)
	}
	d.lock = nil
}

// lengthen has logind allow the delay that the pods need, by a drop-in of its configuration.
func (d *Driver) lengthen(ctx context.Context, l Logind) error {
	allowed, err := l.InhibitDelay()
	if err != nil || allowed >= d.o.Period {
		return err
	}
	seconds := int64((d.o.Period + time.Second - 1) / time.Second)
	text := fmt.Sprintf("%s[Login]\nInhibitDelayMaxSec=%d\n", mark(d.o.RootDir), seconds)
	if err := os.MkdirAll(d.o.ConfigDir, 0o755); err != nil { //nolint:gosec // world-readable, as systemd's are
		return err
	}
	path := filepath.Join(d.o.ConfigDir, DropIn)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // the same
		return err
	}
	if err := l.Reload(); err != nil {
		return err
	}
	for range reloadTries {
		if allowed, err = l.InhibitDelay(); err != nil || allowed >= d.o.Period {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reloadPause):
		}
	}
	return fmt.Errorf("logind allows a delay of %s, and the pods need %s; see InhibitDelayMaxSec in %s", allowed,
		d.o.Period, path)
}
