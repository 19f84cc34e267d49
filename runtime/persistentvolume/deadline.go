package persistentvolume

import (
	"context"
	"time"

	"github.com/journalet/journalet/runtime/clock"
)

// deadline is when something is due, if it is.
type deadline struct {
	clock clock.Clock
	at    time.Time
}

func (d *deadline) set(in time.Duration) { d.at = d.clock.Now().Add(in) }
func (d *deadline) clear()               { d.at = time.Time{} }
func (d *deadline) isSet() bool          { return !d.at.IsZero() }

// wait waits for a bell, or until it is due, which clears it, and reports that. An error is the context's.
func (d *deadline) wait(ctx context.Context, b clock.Bell) (passed bool, err error) {
	in := clock.Forever
	if d.isSet() {
		in = max(0, d.at.Sub(d.clock.Now()))
	}
	rang, err := b.Wait(ctx, in)
	if rang || err != nil {
		return false, err
	}
	d.clear()
	return true, nil
}
