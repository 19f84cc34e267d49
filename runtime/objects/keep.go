package objects

import (
	"cmp"
	"slices"
	"time"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

// keep gives an immutable object that has just been read to the pods that refer to its name. From now on they refer to
// this object, not to another object of its name. Nothing is followed for them, and the next pod has the name read
// again. A pod that began to refer to the name after this read was requested has it read again, too: the object may
// have been deleted and created again before. s.mu is held.
func (s *Store) keep(k Key, e *entry) {
	one := k
	one.UID = cmp.Or(e.object.UID, e.digest)
	late := false
	for uid, p := range s.pods {
		for i := range p.keys {
			switch {
			case p.keys[i] != k:
			case !e.object.Requested.IsZero() && e.object.Requested.Before(p.since):
				late = true
			default:
				p.keys[i] = one
				s.share(one, e)
				s.stale[uid] = true
				e.users--
			}
		}
	}
	switch {
	case late:
		s.renew(k, e)
	case e.users == 0:
		s.backing(k).Unwatch(k)
		delete(s.entries, k)
	}
}

// share adds a pod to the pods that have one object, as it was read by its name. The caller holds s.mu.
func (s *Store) share(one Key, read *entry) {
	e := s.entries[one]
	if e == nil {
		// The backing has a copy for the next start while a pod has the object.
		e = &entry{watched: one.API, first: make(chan struct{})}
		s.entries[one] = e
		if e.watched {
			s.opts.API.Watch(one, "")
		}
	}
	if !e.object.hasContents() {
		e.object, e.digest, e.secrets = read.object, read.digest, read.secrets
		e.markRead()
	}
	e.users++
}

// renew has an object read again that was read by its name; s.mu is held.
func (s *Store) renew(k Key, e *entry) *entry {
	file := s.fileOf(k)
	again := &entry{users: e.users, watched: true, first: make(chan struct{})}
	again.secrets[0] = slices.Concat(e.secrets[0], e.secrets[1]) // pods may have had both
	s.entries[k] = again
	s.backing(k).Unwatch(k)
	s.backing(k).Watch(k, file)
	return again
}

// takeOne takes what was read for the one object that pods were given before the start of the agent. If another one
// has its name, the pods keep what they have in their volumes, and its contents are unknown. s.mu is held.
func (s *Store) takeOne(k Key, e *entry, o Object, digest string) {
	switch {
	case e.object.hasContents():
	case o.hasContents() && cmp.Or(o.UID, digest) == k.UID:
		o.State, o.Message = present, ""
		e.set(k, o, digest)
	case !o.hasContents():
		e.object = o
	default:
		e.object = Object{State: missing}
	}
	if !k.API {
		// The file may be written once more, but the pods are not waiting for it.
		e.watched = false
		s.opts.Backing.Unwatch(k)
	}
}

// keepReported has a pod of the journal refer to the immutable objects that it was given; s.mu is held.
func (s *Store) keepReported(p *pod) {
	for i, r := range p.refs {
		o := p.before(r)
		if !o.GetImmutable() || o.GetUid() == "" {
			continue // also one of a version that did not record which object it was
		}
		one := p.keys[i].named()
		if one.UID = o.GetUid(); one != p.keys[i] {
			s.acquire(one, true)
			s.release(p.keys[i])
			p.keys[i] = one
		}
	}
}

// fileOf returns the file of the object that pods have of a name, empty if none has any: as it is now, and otherwise as
// it was before the start of the agent. s.mu is held.
func (s *Store) fileOf(k Key) (file string) {
	if k.API {
		return ""
	}
	named := k.named()
	if e := s.entries[named]; e != nil && e.object.File != "" {
		return e.object.File
	}
	for other, e := range s.entries {
		if at := e.object.File; other.named() == named && at != "" && (file == "" || at < file) {
			file = at
		}
	}
	if file != "" {
		return file
	}
	var owner string
	for uid, p := range s.pods {
		for i, r := range p.refs {
			if i < len(p.keys) && p.keys[i].named() == named && (owner == "" || uid < owner) {
				if before := p.before(r).GetFile(); before != "" {
					owner, file = uid, before
				}
			}
		}
	}
	return file
}

// keyNow returns what a reference of the pod leads to by now, and otherwise what it led to by its name.
func (p *pod) keyNow(r *journaletv1.ObjectRef, named Key) Key {
	for i, own := range p.refs {
		if references.Equal(own, r) && p.keys[i].named() == named {
			return p.keys[i]
		}
	}
	return named
}

// anyOf returns the newest immutable object that pods have of a name.
func (s *Store) anyOf(named Key) (newest Object, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.entries {
		if k.named() != named || !e.object.hasContents() {
			continue
		}
		if !found || newest.created().Before(e.object.created()) {
			newest, found = e.object, true
		}
	}
	return newest, found
}

func (o *Object) created() time.Time {
	switch {
	case o.ConfigMap != nil:
		return o.ConfigMap.CreationTimestamp.Time
	case o.Secret != nil:
		return o.Secret.CreationTimestamp.Time
	}
	return time.Time{}
}
