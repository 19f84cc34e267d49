package bus

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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

// SizeReport says where the bytes of the bus are.
type SizeReport struct {
	// Journal counts records, and their bytes as encoded.
	Journal Share `json:"journal"`
	// JournalDisk, ManifestsDisk and SnapshotsDisk are what the store takes for the messages, with its own headers.
	JournalDisk   uint64 `json:"journalDisk"`
	ManifestsDisk uint64 `json:"manifestsDisk"`
	SnapshotsDisk uint64 `json:"snapshotsDisk"`
	// ByKind shares the records out by the kind of their actor, ByEvent the events by their name (a
	// step's frame counts as "step"), the largest first.
	ByKind  []Share `json:"byKind"`
	ByEvent []Share `json:"byEvent"`
	// Pods are the largest pods by the records under their name, at most LargestPods.
	Pods []Share `json:"pods"`
	// Manifests and Snapshots count messages.
	Manifests uint64 `json:"manifests"`
	Snapshots uint64 `json:"snapshots"`
}

// Total is all bytes on disk.
func (r *SizeReport) Total() uint64 { return r.JournalDisk + r.ManifestsDisk + r.SnapshotsDisk }

// Size tells where the bytes are. It reads the whole journal.
func (j *Journal) Size(ctx context.Context) (SizeReport, error) {
	var r SizeReport
	for _, s := range []struct {
		stream      string
		disk, count *uint64
	}{{journalStream, &r.JournalDisk, new(uint64)}, {manifestStream, &r.ManifestsDisk, &r.Manifests}, {snapshotStream, &r.SnapshotsDisk, &r.Snapshots}} {
		state, err := j.reader.state(ctx, s.stream)
		if err != nil {
			return r, fmt.Errorf("measure the journal: %w", err)
		}
		*s.disk, *s.count = state.Bytes, state.Msgs
	}
	kinds, events, pods := shares{}, shares{}, shares{}
	r.Journal.Name = "journal"
	err := j.Read(ctx, 0, 0, "", func(rec *journaletv1.Record, size int) error {
		r.Journal.Count++
		r.Journal.Bytes += uint64(size)
		actor := messages.RefOf(rec.GetActor())
		kinds.add(actor.KindName(), size)
		if actor.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
			pods.add(actor.ID, size)
		}
		if fact := rec.GetFact(); fact != nil {
			events.add(messages.EventName(fact), size)
			return nil
		}
		for _, e := range rec.GetStep().GetDecisions() {
			n := proto.Size(e)
			events.add(messages.EventName(e), n)
			size -= n
		}
		events.add("step", size)
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("measure the journal: %w", err)
	}
	r.ByKind, r.ByEvent, r.Pods = kinds.sorted(), events.sorted(), pods.sorted()
	r.Pods = r.Pods[:min(len(r.Pods), LargestPods)]
	return r, nil
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
