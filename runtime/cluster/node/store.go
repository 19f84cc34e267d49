package node

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// store receives what the watch shows.
type store Driver

// Store returns what a Reflector writes the Node to. Run has its own Reflector; a simulation models one.
func (d *Driver) Store() cache.ReflectorStore { return (*store)(d) }

// Add shows the Node.
func (s *store) Add(o any) error { return s.Update(o) }

// Update shows the Node.
func (s *store) Update(o any) error {
	if n, ok := o.(*corev1.Node); ok && n.Name == s.opts.Settings.Name {
		(*Driver)(s).shown(n)
	}
	return nil
}

// Delete shows that there is no Node.
func (s *store) Delete(o any) error {
	if n, ok := o.(*corev1.Node); ok {
		(*Driver)(s).deleted(func(known *corev1.Node) bool { return n.UID == known.UID })
	}
	return nil
}

// Replace shows a complete list.
func (s *store) Replace(all []any, version string) error {
	d := (*Driver)(s)
	found := false
	for _, o := range all {
		if n, ok := o.(*corev1.Node); ok && n.Name == s.opts.Settings.Name {
			d.shown(n)
			found = true
		}
	}
	if !found {
		// A list from before the Node was created does not show that it is gone: the watch that follows shows the Node.
		d.deleted(func(known *corev1.Node) bool { return !older(version, known.ResourceVersion) })
	}
	d.change(func() { d.synced = true })
	return nil
}

// Resync does nothing: the driver repeats by itself.
func (s *store) Resync() error { return nil }

// shown registers a Node of the watch.
func (d *Driver) shown(n *corev1.Node) {
	d.change(func() { d.deletedUID = "" })
	d.show(n)
}

// show registers a Node of an answer. One that the watch has shown as deleted since is passed over, and so is an older
// one than that which is known: the watch may show what was before our own patch.
func (d *Driver) show(n *corev1.Node) {
	toggled := false
	d.change(func() {
		if n.UID == d.deletedUID {
			return
		}
		if d.node != nil && d.node.UID == n.UID && older(n.ResourceVersion, d.node.ResourceVersion) {
			return
		}
		d.node, d.lazy = n, true
		d.others.show(n, &d.opts.Settings.Machine, d.opts.Now())
		toggled = n.Spec.Unschedulable != d.unschedulable
		d.unschedulable = n.Spec.Unschedulable
		d.once.Do(func() { close(d.known) })
	})
	if toggled {
		d.emitStatus(map[bool]string{true: "NodeNotSchedulable", false: "NodeSchedulable"}[n.Spec.Unschedulable])
	}
}

// deleted registers that there is no Node any more, if it is that which is known.
func (d *Driver) deleted(is func(known *corev1.Node) bool) {
	d.change(func() {
		if d.node != nil && is(d.node) {
			d.deletedUID, d.node, d.gone = d.node.UID, nil, d.opts.Monotonic()
		}
	})
}

// older compares two versions of one object, which are numbers (KEP-5504). Others count as newer.
func older(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && x < y
}
