package offlinecopy

import (
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/objects"
)

const (
	// maxFileBytes bounds one copy: an object has at most 1.5 MiB at the API server, and base64 adds a third.
	maxFileBytes = 4 << 20
	// maxTotalBytes bounds all copies. Beyond it the copies of the largest namespace go first: no namespace takes the
	// room of another.
	maxTotalBytes = 64 << 20

	plainSuffix  = ".json"
	sealedSuffix = ".sealed"
	listPrefix   = "list-"
)

// Options configure a Store; Dir must be set.
type Options struct {
	// Dir is the directory of the copies. It is created with the first one.
	Dir string
	// Seal seals Secrets and tokens; nil: they are not kept.
	Seal cipher.AEAD
	Log  *slog.Logger

	total int64 // maxTotalBytes, unless a test sets it
}

// Store keeps copies. Its methods may be called concurrently; methods that write do so later, in order.
type Store struct {
	opts Options

	mu      sync.Mutex
	pending map[string]*write // by file name
	working chan struct{}     // closed when nothing is pending any more; nil if nothing is
	sizes   map[string]int64  // of what is on disk, by file name
	total   int64
	// namespaces are the namespaces of the copies of objects, by file name; lists have none.
	namespaces map[string]string
	// full are the namespaces that a copy was left out of; each was reported.
	full map[string]bool
}

// copied is the content of a copy.
type copied struct {
	Key       objects.Key       `json:"key"`
	Version   string            `json:"version,omitempty"`
	Immutable bool              `json:"immutable,omitempty"`
	Until     time.Time         `json:"until,omitzero"`
	ConfigMap *corev1.ConfigMap `json:"configMap,omitempty"`
	Secret    *corev1.Secret    `json:"secret,omitempty"`
	Data      []byte            `json:"data,omitempty"`
}

// New returns a store. It touches nothing yet.
func New(o Options) *Store {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.total == 0 {
		o.total = maxTotalBytes
	}
	return &Store{opts: o, pending: map[string]*write{}, sizes: map[string]int64{}, namespaces: map[string]string{},
		full: map[string]bool{}}
}

// isSecret reports whether an object is kept only sealed.
func isSecret(k objects.Key) bool { return k.Kind != journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP }

// fileOf returns the name of the file of an object.
func fileOf(k objects.Key) string {
	text, err := json.Marshal(k)
	if err != nil {
		panic(fmt.Sprintf("kept: a key of strings did not marshal: %v", err))
	}
	sum := sha256.Sum256(text)
	name := hex.EncodeToString(sum[:16])
	if isSecret(k) {
		return name + sealedSuffix
	}
	return name + plainSuffix
}

// Save keeps an object that is present, until the given time if that is not zero.
func (s *Store) Save(k objects.Key, o *objects.Object, until time.Time) {
	if isSecret(k) && s.opts.Seal == nil {
		return
	}
	data, err := json.Marshal(copied{
		Key: k, Version: o.Version, Immutable: o.Immutable, Until: until, ConfigMap: o.ConfigMap, Secret: o.Secret,
		Data: o.Data,
	})
	if err != nil {
		s.opts.Log.Warn("an object is not kept", "error", "it does not marshal")
		return
	}
	name := fileOf(k)
	if isSecret(k) {
		data = s.seal(name, data)
	}
	s.put(name, &write{data: data, object: true, namespace: k.Namespace})
}

// seal returns the nonce and the sealed data, bound to the file's name.
func (s *Store) seal(name string, data []byte) []byte {
	nonce := make([]byte, s.opts.Seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails: it ends the process instead
	return s.opts.Seal.Seal(nonce, nonce, data, []byte(name))
}

// Load returns the copy of an object that is still valid.
func (s *Store) Load(k objects.Key) (objects.Object, bool) {
	name := fileOf(k)
	if isSecret(k) && s.opts.Seal == nil {
		return objects.Object{}, false
	}
	data, ok := s.get(name)
	if ok && isSecret(k) {
		data, ok = s.unseal(name, data)
	}
	var c copied
	if !ok || bounded.JSON(data, maxFileBytes, &c) != nil || c.Key != k ||
		!c.Until.IsZero() && !time.Now().Before(c.Until) {
		return objects.Object{}, false
	}
	o := objects.Object{
		State: journaletv1.ObjectState_OBJECT_STATE_PRESENT, Version: c.Version, Immutable: c.Immutable,
		ConfigMap: c.ConfigMap, Secret: c.Secret, Data: c.Data,
	}
	switch {
	case c.ConfigMap != nil:
		o.UID = string(c.ConfigMap.UID)
	case c.Secret != nil:
		o.UID = string(c.Secret.UID)
	}
	return o, true
}

func (s *Store) unseal(name string, data []byte) ([]byte, bool) {
	n := s.opts.Seal.NonceSize()
	if len(data) < n {
		return nil, false
	}
	out, err := s.opts.Seal.Open(nil, data[:n], data[n:], []byte(name))
	if err != nil {
		s.opts.Log.Warn("a kept Secret cannot be unsealed: the key is another one, or the file is damaged", "file", name)
	}
	return out, err == nil
}

// Remove removes the copy of an object.
func (s *Store) Remove(k objects.Key) { s.put(fileOf(k), new(write)) }

// SaveList keeps a list by its name. No object has this name.
func (s *Store) SaveList(name string, data []byte) {
	s.put(listPrefix+name+plainSuffix, &write{data: data})
}

// LoadList returns a list that was kept.
func (s *Store) LoadList(name string) ([]byte, bool) { return s.get(listPrefix + name + plainSuffix) }

// Sweep removes the copies of all other objects, and what is sealed if nothing can unseal it. It is called once, before
// anything is saved.
func (s *Store) Sweep(still map[objects.Key]bool) {
	names := map[string]string{} // to namespaces
	for k := range still {
		if !isSecret(k) || s.opts.Seal != nil {
			names[fileOf(k)] = k.Namespace
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for e, err := range bounded.Entries(s.opts.Dir) {
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.opts.Log.Warn("cannot read the copies of objects", "error", err)
			}
			return
		}
		name := e.Name()
		namespace, kept := names[name]
		switch {
		case strings.HasPrefix(name, listPrefix) || kept:
			if info, err := e.Info(); err == nil {
				if kept {
					s.namespaces[name] = namespace
				}
				s.sizes[name] = info.Size()
				s.total += info.Size()
			}
		case slices.Contains([]string{plainSuffix, sealedSuffix, partSuffix}, filepath.Ext(name)):
			if err := os.Remove(filepath.Join(s.opts.Dir, name)); err != nil {
				s.opts.Log.Warn("cannot remove the copy of an object", "error", err)
			}
		}
	}
}

// get returns the content of a file, as it will be.
func (s *Store) get(name string) ([]byte, bool) {
	s.mu.Lock()
	w := s.pending[name]
	s.mu.Unlock()
	if w != nil {
		return w.data, w.data != nil
	}
	data, err := bounded.ReadFile(filepath.Join(s.opts.Dir, name), maxFileBytes)
	return data, err == nil
}
