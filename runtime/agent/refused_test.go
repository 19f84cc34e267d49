package agent

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
)

// files are all files below dir and what is in them.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAStartThatIsRefusedLeavesTheJournalAsItWas(t *testing.T) {
	newer := protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), []byte("x"))
	for name, c := range map[string]struct {
		leave func(t *testing.T, b *bus.Bus)
		says  string
	}{
		"a record of a newer version": {func(_ *testing.T, b *bus.Bus) {
			e := new(journaletv1.Event)
			e.ProtoReflect().SetUnknown(newer)
			b.Journal().Append(&journaletv1.Record{Time: timestamppb.Now(), Actor: messages.Pod("p").Proto(), Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
				Cause: 1, Decisions: []*journaletv1.Event{{Kind: &journaletv1.Event_SourceReady{}}, e},
			}}})
		}, "an event of another kind"},
		"a snapshot of a newer version": {func(t *testing.T, b *bus.Bus) {
			set := []*journaletv1.Snapshot{{Actor: messages.Pod("p").Proto(), Handled: 1, State: newer}}
			if err := b.Snapshots().Save(t.Context(), 1, set); err != nil {
				t.Fatal(err)
			}
		}, "has another field in its PodState"},
		"a snapshot that cannot be read": {func(t *testing.T, b *bus.Bus) {
			set := []*journaletv1.Snapshot{{Actor: messages.Pod("p").Proto(), Handled: 1, State: []byte("rubbish")}}
			if err := b.Snapshots().Save(t.Context(), 1, set); err != nil {
				t.Fatal(err)
			}
		}, "recover"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Defaults()
			cfg.ContainerRuntimeEndpoint, cfg.RootDir, cfg.HostnameOverride = simScheme, filepath.Join(t.TempDir(), "root"), "node-1"
			cfg.StaticPodPath, cfg.HealthzPort = t.TempDir(), 0
			log := slog.New(slog.DiscardHandler)
			dir := filepath.Join(cfg.RootDir, "bus")
			b, err := bus.Open(t.Context(), bus.Options{Dir: dir, Node: "node-1", Log: log})
			if err != nil {
				t.Fatal(err)
			}
			b.Journal().Append(&journaletv1.Record{Time: timestamppb.Now(), Actor: messages.Agent.Proto(), Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{
				Kind: &journaletv1.Event_AgentStopped{AgentStopped: &journaletv1.AgentStopped{Reason: "test"}},
			}}})
			c.leave(t, b)
			if err := b.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := files(t, dir)
			for range 2 { // a service manager tries again
				if err := Run(t.Context(), cfg, log); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("it ended with %v", err)
				}
			}
			after := files(t, dir)
			for path := range after {
				if _, ok := before[path]; !ok || before[path] != after[path] {
					t.Errorf("%s is not as it was", path)
				}
			}
			if len(after) < len(before) {
				t.Errorf("%d files are left of %d", len(after), len(before))
			}
		})
	}
}
