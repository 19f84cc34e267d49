package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The disk is full for manifests and snapshots only: nothing is appended meanwhile, so the journal's own recovery does
// not open the streams again.
func TestManifestsAndSnapshotsAreStoredAgainAfterFullDisk(t *testing.T) {
	onOwnDisk(t, func(t *testing.T, dir string) {
		mountDisk(t, dir, 64<<20)
		b := openBus(t, filepath.Join(dir, "bus"))
		appendFacts(t, b, 10)
		data := make([]byte, 256<<10)
		sum := sha256.Sum256(data)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		snaps := []*journaletv1.Snapshot{{Actor: messages.Pod("p").Proto(), Handled: 1, State: data}}
		filler := filepath.Join(dir, "filler")
		fill(t, filler)
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		for range 3 {
			if err := b.Manifests().Put(within(time.Second), digest, data); err == nil {
				t.Fatal("a manifest was stored on a full disk")
			}
			if err := b.Snapshots().Save(within(time.Second), 10, snaps); err == nil {
				t.Fatal("snapshots were stored on a full disk")
			}
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		var err error
		for range 4 {
			if err = b.Manifests().Put(within(20*time.Second), digest, data); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("the disk has space again, and a manifest is not stored: %v", err)
		}
		for range 4 {
			if err = b.Snapshots().Save(within(20*time.Second), 10, snaps); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("the disk has space again, and snapshots are not stored: %v", err)
		}
		appendFacts(t, b, 10)
		wantWhole(t, b, 1, 20, false)
	})
}

func TestStreamsAreReopenedAfterRepeatedFailures(t *testing.T) {
	broken := errors.New("no space left")
	reopened := 0
	m := reopener{reopen: func(time.Time) error { reopened++; return nil }}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for i, c := range []struct {
		ctx    context.Context
		result error
		want   int
	}{
		{t.Context(), broken, 0}, {t.Context(), nil, 0}, // one failure is tolerated
		{t.Context(), broken, 0}, {t.Context(), broken, 1}, {t.Context(), nil, 1},
		{gone, context.Canceled, 1}, {gone, context.Canceled, 1}, {gone, context.Canceled, 1}, // the agent stops
		{t.Context(), broken, 1}, {t.Context(), broken, 2},
	} {
		if err := m.note(c.ctx, time.Now(), c.result); !errors.Is(err, c.result) {
			t.Errorf("%d: %v came back as %v", i, c.result, err)
		}
		if reopened != c.want {
			t.Errorf("%d: opened again %d times, want %d", i, reopened, c.want)
		}
	}
}
