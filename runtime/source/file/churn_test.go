package file

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/watch"
)

// TestSourceConvergesToFreshRead changes a directory in the ways of editors, copies and mounts, and compares the final
// state with one read of the result.
func TestSourceConvergesToFreshRead(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			dir := filepath.Join(t.TempDir(), "pods")
			w := newWorld(t, dir, nil).start()
			path := func() string { return filepath.Join(dir, fmt.Sprintf("%d.yaml", r.IntN(6))) }
			for i := range 400 {
				// Errors are expected: another operation may have removed the file.
				switch r.IntN(8) {
				case 0, 1:
					_ = os.WriteFile(path(), []byte(pod(fmt.Sprintf("p%d", r.IntN(9)), fmt.Sprintf("x:%d", i))), 0o600)
				case 2:
					_ = os.WriteFile(filepath.Join(dir, ".tmp"), []byte(pod(fmt.Sprintf("p%d", r.IntN(9)), fmt.Sprintf("x:%d", i))),
						0o600)
					_ = os.Rename(filepath.Join(dir, ".tmp"), path())
				case 3:
					_ = os.Rename(path(), path())
				case 4:
					_ = os.Remove(path())
				case 5:
					_ = os.WriteFile(path(), []byte("kind: ["), 0o600)
				case 6:
					_ = os.Mkdir(dir, 0o700)
				case 7:
					if r.IntN(8) == 0 {
						_ = os.Rename(dir, fmt.Sprintf("%s-%d", dir, i))
					}
				}
			}
			_ = os.Mkdir(dir, 0o700)
			for i := range 6 {
				write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), pod(fmt.Sprintf("last%d", i), "x:last"))
			}
			fresh := newWorld(t, dir, nil)
			fresh.open(watch.New(dir, fresh.log))
			defer fresh.files.Close()
			fresh.scan()
			want := source.New(messages.FileSource)
			fact := &journaletv1.ManifestsRead{Source: messages.FileSource, Synced: true}
			for name := range fresh.contents {
				fact.Changed = append(fact.Changed, fresh.contentOf(name).ManifestFile)
			}
			body := &journaletv1.Event{Kind: &journaletv1.Event_ManifestsRead{ManifestsRead: fact}}
			if err := want.Evolve(actors.Event{Body: body}); err != nil {
				t.Fatal(err)
			}
			w.until("what a fresh reading gives", func(s *journaletv1.SourceState) bool {
				if len(s.GetFiles()) != len(want.Source().GetFiles()) {
					return false
				}
				for name, f := range want.Source().GetFiles() {
					if !proto.Equal(f, s.GetFiles()[name]) {
						return false
					}
				}
				return true
			})
		})
	}
}
