package credentials

import (
	"github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "credentials" }

// Recover takes what the image actor knows of pulls.
func (d *Driver) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *image.Actor) {
		d.Seed(a.Images())
		r.Pending(ref, d.Stored)
	})
}
