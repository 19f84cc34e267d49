package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
)

const (
	manifestStream = "MANIFESTS"
	digestPrefix   = "sha256:"
	// ManifestGrace is how long a manifest stays after Put even if no event names it: it is stored before the fact
	// that names it, and a full disk may delay that fact.
	ManifestGrace = time.Hour
	// maxPutNoted is how many puts are kept in memory before those past their grace are dropped.
	maxPutNoted = 1024
	// putWindow and putWindowBytes bound the manifests in flight; putTimeout bounds the wait for them.
	putWindow      = 128
	putWindowBytes = 4 << 20
	putTimeout     = 10 * time.Second
)

// ErrNoManifest means that no manifest with that digest is kept.
var ErrNoManifest = errors.New("no such manifest is kept")

// put is the last Put of a manifest in this run.
type put struct {
	at     time.Time
	stored bool // and on disk, where the journal is synced always
}

// Manifests stores each pod manifest once, by its digest. Events name manifests by digest, so a manifest is stored
// before the first event that names it.
type Manifests struct {
	reader *reader
	node   string
	blocks *blocks
	always bool
	stream jetstream.Stream

	// mu is held while a manifest is stored or removed, so that none is removed that was just put.
	mu sync.Mutex
	// put holds when each was last put, at least for the last ManifestGrace. sweepAt is how many it may hold before
	// older ones are dropped.
	put      map[string]put
	sweepAt  int
	reopener reopener
}

func openManifests(ctx context.Context, r *reader, e *embedded, node string) (*Manifests, error) {
	s, err := r.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:              manifestStream,
		Description:       "pod manifests by digest",
		Subjects:          []string{messages.ManifestFilter(node)},
		Storage:           jetstream.FileStorage,
		MaxMsgsPerSubject: 1,
		AllowDirect:       true,
	})
	if err != nil {
		return nil, fmt.Errorf("bus: open the manifests: %w", err)
	}
	return &Manifests{
		reader: r, node: node, stream: s, put: map[string]put{}, sweepAt: maxPutNoted, always: e.sync.Always,
		blocks: &blocks{dir: streamDir(e.dir, manifestStream)},
	}, nil
}

// Put stores one manifest; see PutAll.
func (m *Manifests) Put(ctx context.Context, digest string, data []byte) error {
	return m.PutAll(ctx, maps.All(map[string][]byte{digest: data}))
}

// PutAll stores manifests of at most MaxManifestBytes under their digests, "sha256:<hex>". It returns once they are as
// durable as the sync policy requires; one sync of the disk serves all. One that is already there stays as it is. After
// an error any of them may be stored; put them again. The sequence is walked several times.
func (m *Manifests) PutAll(ctx context.Context, all iter.Seq2[string, []byte]) error {
	for digest, data := range all {
		if len(data) > MaxManifestBytes {
			return fmt.Errorf("store manifest %s: %d bytes, more than the limit of %d", digest, len(data), MaxManifestBytes)
		}
		if err := checkDigest(digest, data); err != nil {
			return fmt.Errorf("store manifest %s: %w", digest, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := false
	for digest := range all {
		stored := m.put[digest].stored
		m.notePut(digest, stored)
		missing = missing || !stored
	}
	if !missing {
		return nil
	}
	begun := time.Now()
	if err := m.reopener.note(ctx, begun, m.publish(ctx, all)); err != nil {
		return err
	}
	// What an earlier call has stored may not be on disk, if that call failed here.
	if m.always {
		if err := m.blocks.force(); err != nil {
			return err
		}
	}
	for digest := range all {
		m.notePut(digest, true)
	}
	return nil
}

// inFlight is a manifest that is published and not acknowledged.
type inFlight struct {
	digest string
	data   []byte
	ack    jetstream.PubAckFuture
}

// publish publishes the manifests that this run has not stored, many at once: one round trip each would be most of what
// a file of a thousand pods takes. m.mu is held.
func (m *Manifests) publish(ctx context.Context, all iter.Seq2[string, []byte]) error {
	var window []inFlight
	bytes := 0
	for digest, data := range all {
		if m.put[digest].stored {
			continue
		}
		if len(window) == putWindow || bytes+len(data) > putWindowBytes && len(window) > 0 {
			if err := m.await(ctx, window); err != nil {
				return err
			}
			window, bytes = window[:0], 0
		}
		// Without a header that refuses one that is there, it would be written again.
		ack, err := m.reader.js.PublishAsync(messages.ManifestSubject(m.node, digest), data,
			jetstream.WithExpectStream(manifestStream), jetstream.WithExpectLastSequencePerSubject(0))
		if err != nil {
			return fmt.Errorf("store manifest %s: %w", digest, err)
		}
		window, bytes = append(window, inFlight{digest, data, ack}), bytes+len(data)
	}
	return m.await(ctx, window)
}

// await waits until the stream has taken manifests, or has shown that it holds them.
func (m *Manifests) await(ctx context.Context, window []inFlight) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	for _, f := range window {
		err := await(ctx, []jetstream.PubAckFuture{f.ack})
		if refused := new(jetstream.APIError); errors.As(err, &refused) &&
			refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			err = m.replaceDamaged(ctx, f.digest, f.data)
		}
		if err != nil {
			return fmt.Errorf("store manifest %s: %w", f.digest, err)
		}
	}
	return nil
}

// replaceDamaged writes a manifest again that is in the stream, unless it can be read.
func (m *Manifests) replaceDamaged(ctx context.Context, digest string, data []byte) error {
	if _, err := m.Get(ctx, digest); err == nil {
		return nil
	}
	_, err := m.reader.js.Publish(ctx, messages.ManifestSubject(m.node, digest), data,
		jetstream.WithExpectStream(manifestStream))
	return err
}

// notePut remembers that a manifest was just put; mu is held.
func (m *Manifests) notePut(digest string, stored bool) {
	if len(m.put) >= m.sweepAt {
		maps.DeleteFunc(m.put, func(_ string, p put) bool { return time.Since(p.at) >= ManifestGrace })
		m.sweepAt = max(maxPutNoted, 2*len(m.put))
	}
	m.put[digest] = put{time.Now(), stored}
}

// Get returns the manifest with a digest, checked against it. ErrNoManifest if none is kept.
func (m *Manifests) Get(ctx context.Context, digest string) ([]byte, error) {
	if err := digestForm(digest); err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", digest, err)
	}
	msg, err := m.reader.latest(ctx, manifestStream, messages.ManifestSubject(m.node, digest))
	if errors.Is(err, errNotStored) {
		return nil, fmt.Errorf("read manifest %s: %w", digest, ErrNoManifest)
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", digest, err)
	}
	if err := checkDigest(digest, msg.Data); err != nil {
		return nil, fmt.Errorf("read manifest %s: it is damaged: %w", digest, err)
	}
	return msg.Data, nil
}

// Digests returns the digests of all stored manifests.
func (m *Manifests) Digests(ctx context.Context) ([]string, error) {
	info, err := m.stream.Info(ctx, jetstream.WithSubjectFilter(messages.ManifestFilter(m.node)))
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	digests := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		_, token, _ := cutLast(subject)
		digests = append(digests, strings.Replace(token, "-", ":", 1))
	}
	return digests, nil
}

// Collect removes the manifests with these digests, except those put within grace (ManifestGrace except in tests). It
// returns how many it removed. The caller ensures that no kept record and no kept state names them.
func (m *Manifests) Collect(ctx context.Context, digests []string, grace time.Duration) (n int, err error) {
	for _, digest := range digests {
		removed, err := m.remove(ctx, digest, grace)
		if err != nil {
			return n, fmt.Errorf("remove manifest %s: %w", digest, err)
		}
		if removed {
			n++
		}
	}
	if n > 0 {
		err = m.blocks.forceAll()
	}
	return n, err
}

// remove removes one manifest, unless it was put within grace.
func (m *Manifests) remove(ctx context.Context, digest string, grace time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.put[digest]; ok && time.Since(p.at) < grace {
		return false, nil
	}
	delete(m.put, digest)
	return true, m.stream.Purge(ctx, jetstream.WithPurgeSubject(messages.ManifestSubject(m.node, digest)))
}

func digestForm(digest string) error {
	sum, ok := strings.CutPrefix(digest, digestPrefix)
	if b, err := hex.DecodeString(sum); !ok || err != nil || len(b) != sha256.Size || sum != strings.ToLower(sum) {
		return errors.New("want a digest of the form sha256:<64 hex digits>")
	}
	return nil
}

func checkDigest(digest string, data []byte) error {
	if err := digestForm(digest); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if got := digestPrefix + hex.EncodeToString(sum[:]); got != digest {
		return fmt.Errorf("the bytes have the digest %s", got)
	}
	return nil
}
