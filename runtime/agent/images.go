package agent

import (
	"context"

	imageactor "github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/image"
)

// newImages creates the driver that observes images. A simulated runtime has no file system.
func (a *agent) newImages() *image.Driver {
	o := image.Options{
		Conn: a.conn, Uses: a.criDriver.ImageUses, Log: a.log,
		Sink: func(ctx context.Context, e *journaletv1.Event) error { return a.host.Fact(ctx, messages.Image, e) },
	}
	if gc := a.cfg.ImageGC.Config(); gc != nil && !simulated(a.cfg) {
		o.HighPercent = int64(gc.GetHighPercent())
	}
	return image.New(o)
}

// seedImages gives the driver what the journal has.
func (a *agent) seedImages(r *host.Recovered, ref messages.Ref, d *imageactor.Actor) {
	a.images.Seed(d.Images().GetImages())
	r.Pending(ref, a.images.SeedPending)
}
