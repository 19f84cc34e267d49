package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The disk is full for the manifests and the snapshots alone: nothing is appended meanwhile, so the
// journal's own recovery has no reason to open the streams again.
func TestWhatStandsBesideTheJournalIsKeptAgainOnceTheDiskHasRoom(t *testing.T) {
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
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		for range 3 {
			if err := b.Manifests().Put(soon(), digest, data); err == nil {
				t.Fatal("a manifest was kept on a full disk")
			}
			if err := b.Snapshots().Save(soon(), 10, snaps); err == nil {
				t.Fatal("snapshots were kept on a full disk")
			}
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		var err error
		for range 4 {
			if err = b.Manifests().Put(soon(), digest, data); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("the disk has room again, and a manifest is not kept: %v", err)
		}
		for range 4 {
			if err = b.Snapshots().Save(soon(), 10, snaps); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("the disk has room again, and snapshots are not kept: %v", err)
		}
		appendFacts(t, b, 10)
		wantWhole(t, b, 1, 20, false)
	})
}
