package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/restic/chunker"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

const (
	// maxWhole is the size in bytes above which a manifest is stored in parts.
	maxWhole = 32 << 10
	// minPart and maxPart bound a part in bytes. A part ends behind minPart where partBits bits of a fingerprint are zero.
	// A change of a pod of 1.4 MB then costs one part or two and a list of some 9 KB. With smaller parts the list is
	// larger, with larger ones the part.
	minPart  = 2 << 10
	maxPart  = 8 << 10
	partBits = 12
	// partsRead is how many parts one request reads: fewer bytes than readBatchBytes.
	partsRead = 400
	// cutterFile holds the polynomial of the fingerprint, in hex. It is secret: who knows it can write manifests whose
	// parts change all at once. If it is lost, another one is chosen, and manifests are in other parts from then on.
	cutterFile = "CUTTER"
	// cutterDegree is the degree of the polynomials that chunker chooses.
	cutterDegree = 53
	// maxCutterFile bounds what is read of it.
	maxCutterFile = 64
)

// errPartMissing means that a manifest has a part that is not kept.
var errPartMissing = errors.New("it is damaged: a part of it is missing")

// cutter cuts manifests by their content, so that a change of one part leaves the others as they are.
type cutter struct{ polynomial chunker.Pol }

// open reads the polynomial of a bus directory, or chooses one.
func (c *cutter) open(dir string) error {
	if c.polynomial != 0 {
		return nil
	}
	path := filepath.Join(dir, cutterFile)
	b, err := bounded.ReadFile(path, maxCutterFile)
	if err == nil {
		err = c.polynomial.UnmarshalJSON(bytes.TrimSpace(b))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && c.polynomial.Deg() == cutterDegree && c.polynomial.Irreducible() {
		return nil
	}
	if c.polynomial, err = chunker.RandomPolynomial(); err == nil {
		b, err = c.polynomial.MarshalJSON()
	}
	if err == nil {
		err = durable.Write(path, append(b, '\n'))
	}
	if err != nil {
		c.polynomial = 0
		return fmt.Errorf("choose where manifests are cut: %w", err)
	}
	return nil
}

// cut returns the parts of a manifest, which are slices of it.
func (c *cutter) cut(data []byte) (parts [][]byte, err error) {
	cuts := chunker.NewWithBoundaries(bytes.NewReader(data), c.polynomial, minPart, maxPart)
	cuts.SetAverageBits(partBits)
	buf := make([]byte, 0, maxPart)
	for {
		p, err := cuts.Next(buf)
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, data[p.Start:p.Start+p.Length])
	}
}

// pieces returns what is stored of a manifest, in this order: its parts, if it is large, and then what is under its
// digest, which is their list or the manifest.
func (c *cutter) pieces(node, digest string, data []byte) (pieces []stored, err error) {
	if len(data) > maxWhole {
		parts, err := c.cut(data)
		if err != nil {
			return nil, err
		}
		list := &journaletv1.ManifestParts{}
		for _, part := range parts {
			sum := sha256.Sum256(part)
			list.Sums = append(list.Sums, sum[:])
			subject := messages.ManifestPartSubject(node, hex.EncodeToString(sum[:]))
			pieces = append(pieces, stored{subject: subject, data: part})
		}
		if data, err = proto.Marshal(list); err != nil {
			return nil, err
		}
	}
	return append(pieces, stored{messages.ManifestSubject(node, digest), data, digest}), nil
}

// Measure counts the bytes that manifests take in a bus, without one: for a simulation, which cuts them at the same
// places in each run.
type Measure struct {
	cutter cutter
	has    map[string]bool
}

// NewMeasure returns the measure of an empty store that cuts by a polynomial.
func NewMeasure(polynomial chunker.Pol) *Measure {
	return &Measure{cutter: cutter{polynomial}, has: map[string]bool{}}
}

// Put returns how many bytes a manifest adds to the store.
func (m *Measure) Put(node, digest string, data []byte) (bytes int, err error) {
	pieces, err := m.cutter.pieces(node, digest, data)
	for _, s := range pieces {
		if !m.has[s.subject] {
			m.has[s.subject] = true
			bytes += len(s.data) + len(s.subject) + storedFrame
		}
	}
	return bytes, err
}

// partsOf returns the sums of a manifest's parts in hex, nil if data is no list of parts.
func partsOf(data []byte) (sums []string) {
	list := &journaletv1.ManifestParts{}
	if proto.Unmarshal(data, list) != nil || len(list.ProtoReflect().GetUnknown()) > 0 {
		return nil
	}
	for _, sum := range list.GetSums() {
		if len(sum) != sha256.Size {
			return nil
		}
		sums = append(sums, hex.EncodeToString(sum))
	}
	return sums
}

// join returns the manifest with a digest: what is stored under it, or the parts that this lists, which read returns by
// their sums.
func join(digest string, data []byte, read func(sums []string) (map[string][]byte, error)) ([]byte, error) {
	damaged := checkDigest(digest, data)
	if damaged == nil {
		return data, nil
	}
	sums := partsOf(data)
	if sums == nil {
		return nil, fmt.Errorf("it is damaged: %w", damaged)
	}
	parts, err := read(sums)
	if err != nil {
		return nil, err
	}
	var whole []byte
	for _, sum := range sums {
		part, ok := parts[sum]
		if !ok {
			return nil, errPartMissing
		}
		if whole = append(whole, part...); len(whole) > MaxManifestBytes {
			return nil, fmt.Errorf("it is damaged: its parts have more than %d bytes", MaxManifestBytes)
		}
	}
	if err := checkDigest(digest, whole); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	return whole, nil
}

// parts reads the parts with these sums that are kept.
func (r *reader) parts(ctx context.Context, node string, sums []string) (map[string][]byte, error) {
	out := make(map[string][]byte, len(sums))
	all := slices.Compact(slices.Sorted(slices.Values(sums)))
	for some := range slices.Chunk(all, partsRead) {
		subjects := make([]string, len(some))
		for i, sum := range some {
			subjects[i] = messages.ManifestPartSubject(node, sum)
		}
		page, err := r.page(ctx, manifestStream, getRequest{LastForAll: subjects})
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			_, sum, _ := cutLast(m.Header.Get(jetstream.SubjectHeader))
			out[sum] = m.Data
		}
	}
	return out, nil
}

// collectParts removes the parts that no manifest has, except those put within grace. It returns how many.
func (m *Manifests) collectParts(ctx context.Context, grace time.Duration) (n int, err error) {
	info, err := m.stream.Info(ctx, jetstream.WithSubjectFilter(messages.ManifestPartFilter(m.node)))
	if err != nil || len(info.State.Subjects) == 0 {
		return 0, err
	}
	unused := info.State.Subjects
	err = m.reader.each(ctx, manifestStream, messages.ManifestDigestFilter(m.node), func(data []byte) {
		for _, sum := range partsOf(data) {
			delete(unused, messages.ManifestPartSubject(m.node, sum))
		}
	})
	if err != nil {
		return 0, err
	}
	for subject := range unused {
		removed, err := m.remove(ctx, subject, grace)
		if err != nil {
			return n, err
		}
		if removed {
			n++
		}
	}
	return n, nil
}

// parts reads the parts with these sums that are kept.
func (s *Stored) parts(ctx context.Context, sums []string) (map[string][]byte, error) {
	out := make(map[string][]byte, len(sums))
	for _, sum := range sums {
		b, err := s.manifests.get(ctx, s, messages.ManifestPartSubject(s.stream.node, sum))
		if errors.Is(err, errNotStored) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[sum] = b
	}
	return out, nil
}
