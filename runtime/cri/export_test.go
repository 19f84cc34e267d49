package cri

import "time"

// WithReservedName returns a copy of the driver with another timeout for reserved names.
func (d *Driver) WithReservedName(t time.Duration) *Driver {
	out := *d
	out.opts.Timeouts.ReservedName = t
	return &out
}
