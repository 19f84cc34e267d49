package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// LargestPods is how many pods a size report names.
const LargestPods = 20

// Share is one line of a size report.
type Share struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
	Bytes uint64 `json:"bytes"`
}

// SizeReport is how many bytes each part of the bus takes.
type SizeReport struct {
	// Journal counts records, and their bytes as encoded.
	Journal Share `json:"journal"`
	// JournalDisk, ManifestsDisk and SnapshotsDisk are the bytes of the stored messages, with the store's headers.
	JournalDisk   uint64 `json:"journalDisk"`
	ManifestsDisk uint64 `json:"manifestsDisk"`
	SnapshotsDisk uint64 `json:"snapshotsDisk"`
	// ByKind divides the records by the kind of their actor, ByEvent the events by their name (the rest of a step
	// counts as "step"), the largest first.
	ByKind  []Share `json:"byKind"`
	ByEvent []Share `json:"byEvent"`
	// Pods are the pods with the most bytes of records, at most LargestPods.
	Pods []Share `json:"pods"`
	// Manifests and Snapshots count messages, of manifests their parts too.
	Manifests uint64 `json:"manifests"`
	Snapshots uint64 `json:"snapshots"`
	// Sets are the complete sets of snapshots by their barriers: how many states each has, and their bytes as encoded.
	Sets []Share `json:"sets,omitempty"`
}

func (r *SizeReport) addSet(barrier uint64, index *journaletv1.SnapshotIndex) {
	r.Sets = append(r.Sets, Share{strconv.FormatUint(barrier, 10), uint64(index.GetActors()), index.GetBytes()})
}

// Total returns all bytes on disk.
func (r *SizeReport) Total() uint64 { return r.JournalDisk + r.ManifestsDisk + r.SnapshotsDisk }

// Size returns how many bytes each part takes. It reads the whole journal.
func (j *Journal) Size(ctx context.Context) (SizeReport, error) {
	var r SizeReport
	for _, s := range []struct {
		stream      string
		disk, count *uint64
	}{{journalStream, &r.JournalDisk, new(uint64)}, {manifestStream, &r.ManifestsDisk, &r.Manifests},
		{snapshotStream, &r.SnapshotsDisk, &r.Snapshots}} {
		state, err := j.reader.state(ctx, s.stream)
		if err != nil {
			return r, fmt.Errorf("measure the journal: %w", err)
		}
		*s.disk, *s.count = state.Bytes, state.Msgs
	}
	m := newMeasure(&r)
	err := j.Read(ctx, 0, 0, "", func(rec *journaletv1.Record, size int) error {
		m.add(rec, size)
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("measure the journal: %w", err)
	}
	m.end()
	return r, j.measureSets(ctx, &r)
}

func (j *Journal) measureSets(ctx context.Context, r *SizeReport) error {
	stream, err := j.reader.js.Stream(ctx, snapshotStream)
	if err != nil {
		return fmt.Errorf("measure the snapshots: %w", err)
	}
	s := &Snapshots{reader: j.reader, node: j.node, stream: stream}
	names, err := s.sets(ctx)
	if err != nil {
		return fmt.Errorf("measure the snapshots: %w", err)
	}
	for _, at := range slices.Sorted(maps.Keys(names)) {
		index, err := s.index(ctx, at, names[at])
		if err != nil && !errors.Is(err, errIncomplete) {
			return fmt.Errorf("measure the snapshots at %d: %w", at, err)
		}
		if err == nil {
			r.addSet(at, index)
		}
	}
	return nil
}

// measure divides the records' bytes.
type measure struct {
	r                   *SizeReport
	kinds, events, pods shares
}

func newMeasure(r *SizeReport) *measure {
	r.Journal.Name = "journal"
	return &measure{r, shares{}, shares{}, shares{}}
}

func (m *measure) add(rec *journaletv1.Record, size int) {
	m.r.Journal.Count++
	m.r.Journal.Bytes += uint64(size)
	actor := messages.RefOf(rec.GetActor())
	m.kinds.add(actor.KindName(), size)
	if actor.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		m.pods.add(actor.ID, size)
	}
	if fact := rec.GetFact(); fact != nil {
		m.events.add(messages.EventName(fact), size)
		return
	}
	for _, e := range rec.GetStep().GetDecisions() {
		n := proto.Size(e)
		m.events.add(messages.EventName(e), n)
		size -= n
	}
	m.events.add("step", size)
}

func (m *measure) end() {
	m.r.ByKind, m.r.ByEvent, m.r.Pods = m.kinds.sorted(), m.events.sorted(), m.pods.sorted()
	m.r.Pods = m.r.Pods[:min(len(m.r.Pods), LargestPods)]
}

type shares map[string]*Share

func (s shares) add(name string, size int) {
	if name == "" {
		name = "unknown"
	}
	share, ok := s[name]
	if !ok {
		share = &Share{Name: name}
		s[name] = share
	}
	share.Count++
	share.Bytes += uint64(max(size, 0))
}

func (s shares) sorted() []Share {
	out := make([]Share, 0, len(s))
	for _, share := range s {
		out = append(out, *share)
	}
	slices.SortFunc(out, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return out
}
