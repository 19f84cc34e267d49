package file

import "fmt"

// scan checks the path, its names, and each file, and reads files with another stamp.
func (d *Driver) scan() {
	d.refreshClasses()
	err := d.files.Scan()
	d.setPathErr(err)
	if err != nil {
		return
	}
	d.scanned = true
	for name := range d.sender.Files {
		if !d.files.Has(name) {
			d.pending[name] = true
		}
	}
}

// refreshClasses decodes every file again if a runtime class has changed.
func (d *Driver) refreshClasses() {
	if now := d.opts.Classes(); now != d.classes {
		d.classes = now
		d.files.Retake()
	}
}

// setPathErr sets why the path cannot be read; nil if it can. Its pods keep running.
func (d *Driver) setPathErr(err error) {
	if err != nil {
		err = fmt.Errorf("read the static pods: %w; they keep running; check that the agent may read the path", err)
	}
	d.mu.Lock()
	was := d.pathErr
	d.pathErr = err
	d.mu.Unlock()
	if err != nil && (was == nil || was.Error() != err.Error()) {
		d.log.Error("cannot read static pods", "error", err)
	}
}
