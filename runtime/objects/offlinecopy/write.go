package offlinecopy

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	dirMode    = 0o700
	fileMode   = 0o600
	partSuffix = ".part"
)

// write is what a file is to hold; nil data: it is to be removed.
type write struct {
	data []byte
	// object: it is the copy of an object of namespace, and no list.
	object    bool
	namespace string
}

// put writes or removes a file later.
func (s *Store) put(name string, w *write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[name] = w
	if s.working == nil {
		s.working = make(chan struct{})
		go s.work()
	}
}

// Flush waits until everything is written.
func (s *Store) Flush() {
	s.mu.Lock()
	working := s.working
	s.mu.Unlock()
	if working != nil {
		<-working
	}
}

// work writes until nothing is pending.
func (s *Store) work() {
	for {
		s.mu.Lock()
		if len(s.pending) == 0 {
			close(s.working)
			s.working = nil
			s.mu.Unlock()
			return
		}
		name := slices.Min(slices.Collect(maps.Keys(s.pending)))
		w := s.pending[name]
		if w.object {
			s.namespaces[name] = w.namespace
		}
		data, others := s.fitting(name, w.data)
		s.mu.Unlock()
		for _, other := range others {
			s.store(other, nil)
		}
		s.store(name, data)
		s.mu.Lock()
		if s.pending[name] == w { // otherwise there is a newer one
			delete(s.pending, name)
		}
		s.mu.Unlock()
	}
}

// fitting returns data if it has room, and nil otherwise: an older copy is worse than none. others are copies that make
// room for it, the largest of the largest namespaces. s.mu is held.
func (s *Store) fitting(name string, data []byte) (fits []byte, others []string) {
	if len(data) > maxFileBytes {
		s.leaveOut(s.namespaces[name])
		return nil, nil
	}
	sizes := maps.Clone(s.sizes)
	sizes[name] = int64(len(data))
	for data != nil && sum(sizes) > s.opts.total {
		other := s.spare(sizes)
		if other == "" || s.namespaces[other] == s.namespaces[name] {
			s.leaveOut(s.namespaces[name])
			return nil, nil // copies that would have made room stay
		}
		delete(sizes, other)
		others = append(others, other)
	}
	for _, other := range others {
		s.leaveOut(s.namespaces[other])
	}
	return data, others
}

func sum(sizes map[string]int64) (all int64) {
	for _, n := range sizes {
		all += n
	}
	return all
}

// spare returns the largest copy of the namespace whose copies are largest together; "" if no namespace has copies. The
// caller holds s.mu.
func (s *Store) spare(sizes map[string]int64) (largest string) {
	all := map[string]int64{}
	for name, n := range sizes {
		if namespace, ok := s.namespaces[name]; ok {
			all[namespace] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		namespace, ok := s.namespaces[name]
		most := all[s.namespaces[largest]]
		if ok && (largest == "" || all[namespace] > most || all[namespace] == most && sizes[name] > sizes[largest]) {
			largest = name
		}
	}
	return largest
}

// leaveOut reports, once, that a namespace has no more room. s.mu is held.
func (s *Store) leaveOut(namespace string) {
	if !s.full[namespace] {
		s.full[namespace] = true
		s.opts.Log.Warn("copies of the objects of a namespace have no more room: after a start without the API server, its "+
			"pods wait for it", "namespace", namespace, "bytes", s.opts.total)
	}
}

// store writes or removes one file. What is there after any crash is whole, or not what Load takes.
func (s *Store) store(name string, data []byte) {
	path := filepath.Join(s.opts.Dir, name)
	var err error
	if data == nil {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else if err = os.MkdirAll(s.opts.Dir, dirMode); err == nil {
		err = writeFile(path, data)
	}
	if err != nil {
		s.opts.Log.Warn("cannot keep a copy of an object", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += int64(len(data)) - s.sizes[name]
	if s.sizes[name] = int64(len(data)); data == nil {
		delete(s.sizes, name)
		delete(s.namespaces, name)
	}
}

func writeFile(path string, data []byte) error {
	part := path + partSuffix
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}
