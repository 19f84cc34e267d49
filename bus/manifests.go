package bus

import (
	"bytes"
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
	// fullGrace replaces ManifestGrace while manifests take more than their share of the disk. A fact that has waited
	// longer for the disk is stored before the next cut: the cut needs the disk too, and is behind it.
	fullGrace = 5 * time.Minute
	// maxPutNoted is how many puts are kept in memory before puts past their grace are dropped.
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

// Manifests stores each pod manifest once, by its digest, and large ones in parts (ADR 075). Events name manifests by
// digest, so a manifest is stored before the first event that names it.
type Manifests struct {
	reader *reader
	node   string
	dir    string
	blocks *blocks
	always bool
	stream jetstream.Stream
	// charge receives the bytes that are stored. May be nil.
	charge func(bytes int64)

	// mu is held while a manifest is stored or removed, so that no manifest is removed that was just put.
	mu sync.Mutex
	// put holds when each message was last put, by its subject, at least for the last ManifestGrace. sweepAt is how many
	// it may hold before older ones are dropped.
	put      map[string]put
	sweepAt  int
	cutter   cutter
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
		reader: r, node: node, dir: e.dir, stream: s, put: map[string]put{}, sweepAt: maxPutNoted, always: e.sync.Always,
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
		subject := messages.ManifestSubject(m.node, digest)
		stored := m.put[subject].stored
		m.notePut(subject, stored)
		missing = missing || !stored
	}
	if !missing {
		return nil
	}
	p := &publishing{Manifests: m, done: map[string]bool{}}
	begun := time.Now()
	if err := m.reopener.note(ctx, begun, p.publishAll(ctx, all)); err != nil {
		return err
	}
	// What an earlier call has stored may not be on disk, if that call failed here.
	if m.always {
		if err := m.blocks.force(); err != nil {
			return err
		}
	}
	for subject := range p.done {
		m.notePut(subject, true)
	}
	return nil
}

// stored is one message of the stream: a manifest, which parts it has, or a part.
type stored struct {
	subject string
	data    []byte
	digest  string // of the manifest, "" for a part
}

// inFlight is a message that is published and not acknowledged.
type inFlight struct {
	stored
	ack jetstream.PubAckFuture
}

// publishing is one PutAll: many messages are in flight at once, since one round trip each would be most of what a file
// of a thousand pods takes.
type publishing struct {
	*Manifests
	window []inFlight
	bytes  int
	done   map[string]bool // subjects of what was published, or was there
}

// publishAll publishes the manifests that this run has not stored, the parts of each before it. The caller holds mu.
func (p *publishing) publishAll(ctx context.Context, all iter.Seq2[string, []byte]) error {
	for digest, data := range all {
		subject := messages.ManifestSubject(p.node, digest)
		if p.put[subject].stored {
			continue
		}
		if len(data) > maxWhole {
			if err := p.cutter.open(p.dir); err != nil {
				return err
			}
		}
		pieces, err := p.cutter.pieces(p.node, digest, data)
		if err != nil {
			return fmt.Errorf("store manifest %s in parts: %w", digest, err)
		}
		for _, s := range pieces {
			switch {
			case s.digest == "" && p.done[s.subject]:
			case s.digest == "" && p.put[s.subject].stored:
				p.done[s.subject] = true
			default:
				if err := p.publish(ctx, s); err != nil {
					return fmt.Errorf("store manifest %s: %w", digest, err)
				}
			}
		}
	}
	return p.await(ctx)
}

func (p *publishing) publish(ctx context.Context, s stored) error {
	if len(p.window) == putWindow || p.bytes+len(s.data) > putWindowBytes && len(p.window) > 0 {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	// The expected sequence rejects a manifest that is stored already; without it the manifest would be written again.
	ack, err := p.reader.js.PublishAsync(s.subject, s.data,
		jetstream.WithExpectStream(manifestStream), jetstream.WithExpectLastSequencePerSubject(0))
	if err != nil {
		return err
	}
	p.window, p.bytes, p.done[s.subject] = append(p.window, inFlight{s, ack}), p.bytes+len(s.data), true
	return nil
}

// await waits until the stream has taken what is in flight, or has shown that it holds it.
func (p *publishing) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	for _, f := range p.window {
		err := await(ctx, []jetstream.PubAckFuture{f.ack})
		if refused := new(jetstream.APIError); errors.As(err, &refused) &&
			refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			err = p.replaceDamaged(ctx, f.stored)
		} else if err == nil && p.charge != nil {
			p.charge(int64(len(f.data)+len(f.subject)) + storedFrame)
		}
		if err != nil {
			return fmt.Errorf("store %s: %w", f.subject, err)
		}
	}
	p.window, p.bytes = p.window[:0], 0
	return nil
}

// replaceDamaged writes a message again that is in the stream, unless it can be read.
func (m *Manifests) replaceDamaged(ctx context.Context, s stored) error {
	if s.digest != "" {
		// An earlier version may have stored it whole, or another cutter in other parts.
		if _, err := m.Get(ctx, s.digest); err == nil {
			return nil
		}
	} else if msg, err := m.reader.latest(ctx, manifestStream, s.subject); err == nil && bytes.Equal(msg.Data, s.data) {
		return nil
	}
	_, err := m.reader.js.Publish(ctx, s.subject, s.data, jetstream.WithExpectStream(manifestStream))
	return err
}

// notePut remembers that a message was just put. The caller holds mu.
func (m *Manifests) notePut(subject string, stored bool) {
	if len(m.put) >= m.sweepAt {
		maps.DeleteFunc(m.put, func(_ string, p put) bool { return time.Since(p.at) >= ManifestGrace })
		m.sweepAt = max(maxPutNoted, 2*len(m.put))
	}
	m.put[subject] = put{time.Now(), stored}
}

// Get returns the manifest with a digest, checked against it. ErrNoManifest if none is kept.
func (m *Manifests) Get(ctx context.Context, digest string) ([]byte, error) {
	if err := digestForm(digest); err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", digest, err)
	}
	subject := messages.ManifestSubject(m.node, digest)
	msg, err := m.reader.latest(ctx, manifestStream, subject)
	var data []byte
	if err == nil {
		data, err = join(digest, msg.Data, func(sums []string) (map[string][]byte, error) {
			return m.reader.parts(ctx, m.node, sums)
		})
	}
	if errors.Is(err, errPartMissing) {
		// Unless it was collected meanwhile, it is damaged.
		if _, again := m.reader.latest(ctx, manifestStream, subject); errors.Is(again, errNotStored) {
			err = again
		}
	}
	if errors.Is(err, errNotStored) {
		err = ErrNoManifest
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", digest, err)
	}
	return data, nil
}

// Digests returns the digests of all stored manifests.
func (m *Manifests) Digests(ctx context.Context) ([]string, error) {
	info, err := m.stream.Info(ctx, jetstream.WithSubjectFilter(messages.ManifestDigestFilter(m.node)))
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

// Collect removes the manifests with these digests, and then the parts that no manifest has, except those put within
// grace. It returns how many manifests it removed. The caller ensures that no kept record and no kept state names them.
func (m *Manifests) Collect(ctx context.Context, digests []string, grace time.Duration) (n int, err error) {
	for _, digest := range digests {
		removed, err := m.remove(ctx, messages.ManifestSubject(m.node, digest), grace)
		if err != nil {
			return n, fmt.Errorf("remove manifest %s: %w", digest, err)
		}
		if removed {
			n++
		}
	}
	parts, err := m.collectParts(ctx, grace)
	if err != nil {
		return n, fmt.Errorf("remove parts of manifests: %w", err)
	}
	if n+parts > 0 {
		err = m.blocks.forceAll()
	}
	return n, err
}

// remove removes one message, unless it was put within grace.
func (m *Manifests) remove(ctx context.Context, subject string, grace time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.put[subject]; ok && time.Since(p.at) < grace {
		return false, nil
	}
	delete(m.put, subject)
	return true, m.stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
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
