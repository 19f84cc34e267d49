package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Unnamed lists the manifests that neither a kept record nor one of the states names. It reads the
// whole journal, unless there is nothing to ask for. Digests are found by their form, wherever in a
// message they stand: one that a later event brings is not forgotten.
func (b *Bus) Unnamed(ctx context.Context, states []*journaletv1.Snapshot) ([]string, error) {
	all, err := b.manifests.Digests(ctx)
	if err != nil {
		return nil, err
	}
	left := make(map[string]bool, len(all))
	for _, d := range all {
		left[d] = true
	}
	for _, s := range states {
		strike(left, s.GetState())
	}
	if len(left) == 0 {
		return nil, nil
	}
	j := b.journal
	err = j.readBytes(ctx, 0, 0, "", func(b []byte) (uint64, error) {
		strike(left, b)
		rec, err := messages.Decode(b)
		if err != nil {
			return 0, err // then nothing is collected: what it names is not known
		}
		return rec.GetSeq(), ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("look for the manifests that records name: %w", err)
	}
	out := make([]string, 0, len(left))
	for d := range left {
		out = append(out, d)
	}
	return out, nil
}

// strike takes out of left what stands in b.
func strike(left map[string]bool, b []byte) {
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
