package kept

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
type write struct{ data []byte }

// put writes or removes a file later.
func (s *Store) put(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[name] = &write{data}
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
		data := s.fitting(name, w.data)
		s.mu.Unlock()
		s.store(name, data)
		s.mu.Lock()
		if s.pending[name] == w { // otherwise there is a newer one
			delete(s.pending, name)
		}
		s.mu.Unlock()
	}
}

// fitting returns data if it has room, and nil otherwise: an older copy is worse than none. s.mu is held.
func (s *Store) fitting(name string, data []byte) []byte {
	after := s.total - s.sizes[name] + int64(len(data))
	if len(data) > maxFileBytes || data != nil && after > s.opts.total {
		if !s.full {
			s.full = true
			s.opts.Log.Warn("copies of objects have no more room: after a start without the API server, pods that refer to "+
				"others wait for it", "bytes", s.opts.total)
		}
		return nil
	}
	return data
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
