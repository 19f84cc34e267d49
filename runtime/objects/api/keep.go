package api

import (
	"time"

	"github.com/journalet/journalet/runtime/objects"
)

// keep has an entry for an immutable object that was read by its name: pods are about to have this object, and no other
// one of its name. It needs no request. What is kept of it for the next start is kept with its UID. b.mu is held.
func (b *Backing) keep(named objects.Key, o objects.Object) {
	k := named
	k.UID = o.UID
	e := b.entries[k]
	switch {
	case e == nil:
		e = &entry{key: k, now: &o}
		b.entries[k] = e
		b.idle(e)
	case e.now != nil && e.now.State == present:
		return
	default:
		e.now = &o
		if e.watched {
			b.report(k)
		}
	}
	if b.opts.Kept != nil {
		b.opts.Kept.Save(k, &o, time.Time{})
	}
}

// gone takes that the API server does not have an object any more that pods were given. They keep what is kept of it:
// an immutable object has no newer contents.
func (b *Backing) gone(e *entry) {
	o := objects.Object{State: missing, Message: e.key.Missing()}
	if b.opts.Kept != nil {
		if had, ok := b.opts.Kept.Load(e.key); ok {
			o = had
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[e.key] == e && (e.now == nil || e.now.State != present) {
		e.now = &o
		b.report(e.key)
	}
}
