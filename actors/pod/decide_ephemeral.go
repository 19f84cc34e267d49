package pod

// startEphemeral starts the ephemeral containers that have not run. A created one is started, and one whose creation
// failed is created again.
func (d *step) startEphemeral() {
	for c := range d.ephemerals() {
		r := d.record(c.Name)
		if d.calling(forContainer(c.Name)) || !d.hasNotRun(c.Name) || !d.volumesReady(c) {
			continue
		}
		if m := d.created(r); m != nil {
			d.startCreated(c, m)
		} else {
			d.start(c, r)
		}
	}
}
