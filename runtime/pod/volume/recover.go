package volume

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "volumes" }

// Recover finds what differs between the journal and the disk: Found has it. A failure prevents no start.
func (d *Driver) Recover(r fold.Recovered) {
	var recorded []Recorded
	fold.EachOf(r, func(ref messages.Ref, a *pod.Actor) {
		if !a.OnNode() {
			return // a directory that it has is of a time whose journal is lost
		}
		var pending []*journaletv1.Record
		r.Pending(ref, func(rec *journaletv1.Record) { pending = append(pending, rec) })
		recorded = append(recorded, Recorded{
			UID: ref.ID, Manifest: a.Manifest(), SetUp: a.VolumesSetUp(pending), Gone: a.Gone(pending),
		})
	})
	var err error
	if d.found, err = d.Reconcile(recorded, d.opts.BootID); err != nil {
		d.opts.Log.Warn("cannot compare the volumes of pods with the journal; a restart tries again", "error", err)
	}
}

// Found returns what Recover has found.
func (d *Driver) Found() Found { return d.found }
