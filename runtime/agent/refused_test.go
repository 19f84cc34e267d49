package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/test/must"
)

// files returns the contents of all files below dir by path.
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
	must.OK(t, err)
	return out
}

func TestFailedStartLeavesTheJournalUnchanged(t *testing.T) {
	newer := protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), []byte("x"))
	for name, c := range map[string]struct {
		prepare func(t *testing.T, b *bus.Bus)
		want    string
	}{
		"a record of a newer version": {func(t *testing.T, b *bus.Bus) {
			e := new(journaletv1.Event)
			e.ProtoReflect().SetUnknown(newer)
			step := &journaletv1.Step{Cause: 1, Decisions: []*journaletv1.Event{{Kind: &journaletv1.Event_SourceSynced{}}, e}}
			must.OK(t, b.Journal().Append(&journaletv1.Record{
				Time: timestamppb.Now(), Actor: messages.Pod("p").Proto(), Body: &journaletv1.Record_Step{Step: step},
			}))
		}, "has an event"},
		"a snapshot of a newer version": {func(t *testing.T, b *bus.Bus) {
			set := []*journaletv1.Snapshot{{Actor: messages.Pod("p").Proto(), Handled: 1, State: newer}}
			must.OK(t, b.Snapshots().Save(t.Context(), 1, set))
		}, "has a field in its PodState"},
		"a snapshot that cannot be read": {func(t *testing.T, b *bus.Bus) {
			set := []*journaletv1.Snapshot{{Actor: messages.Pod("p").Proto(), Handled: 1, State: []byte("rubbish")}}
			must.OK(t, b.Snapshots().Save(t.Context(), 1, set))
		}, "recover"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := simulatedConfig(t)
			log := slog.New(slog.DiscardHandler)
			dir := filepath.Join(cfg.RootDir, "bus")
			b, err := bus.Open(t.Context(), bus.Options{Dir: dir, Node: "node-1", Log: log})
			must.OK(t, err)
			stopped := &journaletv1.Event_AgentStopped{AgentStopped: &journaletv1.AgentStopped{Reason: "test"}}
			must.OK(t, b.Journal().Append(&journaletv1.Record{
				Time: timestamppb.Now(), Actor: messages.Agent.Proto(),
				Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{Kind: stopped}},
			}))
			c.prepare(t, b)
			must.OK(t, b.Close(t.Context()))
			before := files(t, dir)
			for range 2 { // a service manager retries
				if err := Run(t.Context(), cfg, log); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("Run returned %v", err)
				}
			}
			after := files(t, dir)
			for path := range after {
				if _, ok := before[path]; !ok || before[path] != after[path] {
					t.Errorf("%s has changed", path)
				}
			}
			if len(after) < len(before) {
				t.Errorf("%d files are left of %d", len(after), len(before))
			}
		})
	}
}

// In a directory that others can change, they could leave keys of theirs, which the agent would accept.
func TestRootDirectoryOfOthersIsRefusedUntouched(t *testing.T) {
	for name, prepare := range map[string]func(root string) error{
		"writable by everybody": func(root string) error {
			return errors.Join(os.Mkdir(root, 0o700), os.Chmod(root, 0o777))
		},
		"with credentials writable by everybody": func(root string) error {
			keys := filepath.Join(root, "bus/credentials")
			return errors.Join(os.MkdirAll(keys, 0o700), os.Chmod(keys, 0o777))
		},
		"replaceable by everybody": func(root string) error {
			return errors.Join(os.Mkdir(root, 0o700), os.Chmod(filepath.Dir(root), 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := simulatedConfig(t)
			must.OK(t, prepare(cfg.RootDir))
			before := files(t, cfg.RootDir)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			log := slog.New(onMessage{slog.DiscardHandler, "journalet started", cancel})
			if err := Run(ctx, cfg, log); err == nil || !strings.Contains(err.Error(), "everybody can change") {
				t.Errorf("Run returned %v", err)
			}
			if after := files(t, cfg.RootDir); !maps.Equal(before, after) {
				t.Errorf("%v, was %v", after, before)
			}
		})
	}
}

// onMessage is a log handler that calls do on a message.
type onMessage struct {
	slog.Handler
	message string
	do      func()
}

func (w onMessage) Enabled(context.Context, slog.Level) bool { return true }
func (w onMessage) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w onMessage) Handle(_ context.Context, r slog.Record) error {
	if r.Message == w.message {
		w.do()
	}
	return nil
}

// runOnce runs an agent until it has started.
func runOnce(t *testing.T, cfg *config.Config) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	must.OK(t, Run(ctx, cfg, slog.New(onMessage{slog.DiscardHandler, "journalet started", stop})))
}

func TestLostJournalIsRecordedByTheNextRunAndVerified(t *testing.T) {
	cfg := simulatedConfig(t)
	runOnce(t, cfg)
	dir := filepath.Join(cfg.RootDir, "bus")
	before := verified(t, dir)
	blocks := filepath.Join(dir, "jetstream", "AGENT", "streams", "JOURNAL", "msgs")
	must.OK(t, errors.Join(os.RemoveAll(blocks), os.Mkdir(blocks, 0o700)))
	runOnce(t, cfg)
	runOnce(t, cfg)
	after := verified(t, dir)
	if !before.OK() || before.Lost != nil || !after.OK() || after.First != before.Last+1 || after.Epochs != 2 ||
		!slices.Equal(after.Lost, []bus.Loss{{From: 1, To: before.Last, ReportedBy: before.Last + 1}}) {
		t.Fatalf("%+v\n%+v", before, after)
	}
}

func verified(t *testing.T, dir string) bus.VerifyReport {
	t.Helper()
	s, err := bus.OpenStored(dir)
	must.OK(t, err)
	v, err := s.Verify(t.Context(), nil)
	must.OK(t, err)
	return v
}

// simulatedConfig returns the configuration of an agent on a simulated runtime, with directories of its own.
func simulatedConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg := config.Defaults()
	cfg.ContainerRuntimeEndpoint, cfg.RootDir, cfg.HostnameOverride = simScheme,
		filepath.Join(t.TempDir(), "root"), "node-1"
	cfg.StaticPodPath, cfg.HealthzPort = t.TempDir(), 0
	return cfg
}
