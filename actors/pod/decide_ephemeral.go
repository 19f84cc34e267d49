package pod

// startEphemeral starts the ephemeral containers that have not run. A created one is started, and one whose creation
// failed is created again.
func (d *step) startEphemeral() error {
	for c := range d.ephemerals() {
		r := d.record(c.Name)
		if d.calling(forContainer(c.Name)) || !d.hasNotRun(c.Name) || !d.volumesReady(c) {
			continue
		}
		var err error
		if m := d.created(r); m != nil {
			err = d.startCreated(c, m)
		} else {
			err = d.start(c, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
