package cri

import "time"

// WithTwin is a copy of the driver that waits only so long for a twin.
func (d *Driver) WithTwin(t time.Duration) *Driver {
	out := *d
	out.opts.Timeouts.ReservedName = t
	return &out
}
