package objects

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
	"github.com/journalet/journalet/runtime/own"
)

const (
	// KeyFile is the file in the root directory with the key of digests.
	KeyFile = own.ObjectsKey
	// damagedKeyFile is where a key of another size goes.
	damagedKeyFile = KeyFile + ".damaged"
	// keyBytes is the size of the key: the size of the hash.
	keyBytes = sha256.Size
)

// digester computes digests of contents with the node's key, which it reads or creates when the first one is needed.
type digester struct {
	root string
	log  *slog.Logger
	once sync.Once
	key  []byte
}

// Digest returns a keyed digest of texts, in hex. Equal lists have equal digests on this node.
func (s *Store) Digest(texts ...string) string {
	h := s.digest.hash()
	for _, text := range texts {
		hashPart(h, []byte(text))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hash returns a hash with the key.
func (d *digester) hash() hash.Hash {
	d.once.Do(func() { d.key = loadKey(d.root, d.log) })
	return hmac.New(sha256.New, d.key)
}

// digestOf returns the digest of contents, in hex. Equal contents have equal digests on this node.
func (d *digester) digestOf(o *Object) string {
	h := d.hash()
	switch {
	case o.ConfigMap != nil:
		all := maps.Clone(o.ConfigMap.BinaryData)
		if all == nil {
			all = map[string][]byte{}
		}
		for k, v := range o.ConfigMap.Data {
			all[k] = []byte(v)
		}
		hashData(h, all)
	case o.Secret != nil:
		hashData(h, o.Secret.Data)
	case o.Certificate != nil:
		hashPart(h, o.Certificate.Key)
		hashPart(h, o.Certificate.Chain)
	default:
		hashPart(h, o.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashData(h io.Writer, data map[string][]byte) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		hashPart(h, []byte(key))
		hashPart(h, data[key])
	}
}

// hashPart adds bytes with their length, so that no two lists of parts are the same text.
func hashPart(h io.Writer, part []byte) {
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // a hash never fails
	_, _ = h.Write(part)
}

// loadKey returns the node's key. If it can be neither read nor written, the key is of this run only: the next run sets
// up every volume with objects once more.
func loadKey(root string, log *slog.Logger) []byte {
	path := filepath.Join(root, KeyFile)
	key, err := readKey(path)
	if errors.Is(err, errDamagedKey) {
		aside := filepath.Join(root, damagedKeyFile)
		err = os.Rename(path, aside)
		log.Warn("the key of digests is damaged; a new one replaces it, and volumes with objects are set up once more",
			"file", path, "moved to", aside)
		if err == nil {
			err = fs.ErrNotExist
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, keyBytes)
		_, _ = rand.Read(key) // never fails: it ends the process instead
		err = durable.Write(path, key)
	}
	if err != nil {
		log.Warn("no lasting key of digests: volumes with objects are set up once more at the next start",
			"file", path, "error", err)
	}
	if key == nil {
		key = make([]byte, keyBytes)
		_, _ = rand.Read(key)
	}
	return key
}

var errDamagedKey = errors.New("the key has another size")

func readKey(path string) ([]byte, error) {
	key, err := bounded.ReadFile(path, keyBytes)
	switch {
	case errors.Is(err, bounded.ErrTooLarge), errors.Is(err, bounded.ErrNotRegular), err == nil && len(key) != keyBytes:
		return nil, errDamagedKey
	case err != nil:
		return nil, err
	}
	// A reader of the key can test guesses of contents against digests.
	return key, os.Chmod(path, 0o600)
}
