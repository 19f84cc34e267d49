package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/journalet/journalet/messages"
)

// UnreferencedManifests returns the digests of manifests that neither a kept record nor a state of any set of snapshots
// names. It reads the whole journal, unless no manifest is left to search for. It finds digests by their form, wherever
// they are in a message, so that a new event that names one needs no change here.
func (b *Bus) UnreferencedManifests(ctx context.Context) ([]string, error) {
	all, err := b.manifests.Digests(ctx)
	if err != nil {
		return nil, err
	}
	left := make(map[string]bool, len(all))
	for _, d := range all {
		left[d] = true
	}
	if err := b.snapshots.each(ctx, func(state []byte) { removeReferenced(left, state) }); err != nil {
		return nil, fmt.Errorf("find the manifests that snapshots name: %w", err)
	}
	if len(left) == 0 {
		return nil, nil
	}
	j := b.journal
	err = j.readBytes(ctx, 0, 0, "", func(b []byte) (uint64, error) {
		removeReferenced(left, b)
		rec, err := messages.Decode(b)
		if err != nil {
			return 0, err // nothing is collected then: what this record names is unknown
		}
		return rec.GetSeq(), ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("find the manifests that records name: %w", err)
	}
	return slices.Collect(maps.Keys(left)), nil
}

// removeReferenced deletes from left the digests that occur in b.
func removeReferenced(left map[string]bool, b []byte) {
	const length = len(digestPrefix) + 2*sha256.Size
	for {
		i := bytes.Index(b, []byte(digestPrefix))
		if i < 0 || len(b)-i < length {
			return
		}
		delete(left, string(b[i:i+length]))
		b = b[i+len(digestPrefix):]
	}
}
