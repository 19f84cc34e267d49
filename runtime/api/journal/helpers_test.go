package journal

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/test/must"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// noPods is a host without actors.
type noPods struct{}

func (noPods) Inspect(context.Context, messages.Ref, func(actors.Decider)) error {
	return errors.New("there is none")
}
func (noPods) Refs(journaletv1.ActorKind) []messages.Ref              { return nil }
func (noPods) LiftQuarantine(messages.Ref, bool) error                { return nil }
func (noPods) Quarantines() map[messages.Ref]*journaletv1.Quarantined { return nil }

// testAgent is a bus with the queries of an agent, and the server of its journal.
type testAgent struct {
	t   *testing.T
	bus *bus.Bus
	url string
}

// newAgent returns an agent that has added the pods shop/web and shop/db, records 1 to 4, and observed a container of
// web that has exited, record 5.
func newAgent(t *testing.T) *testAgent {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, open.BusDir)
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Open(t.Context(), bus.Options{Dir: dir, Node: "n1", Log: log})
	must.OK(t, err)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	b.Journal().OnStored(func(recs []*journaletv1.Record) {
		for _, rec := range recs {
			b.Observers().Publish(rec)
		}
	})
	history := func(ctx context.Context) (history.Reader, error) { return open.Path(ctx, root) }
	stop, err := query.Serve(context.Background(), query.Options{
		Conn: b.Services(), Host: noPods{}, Journal: b.Journal(), Node: "n1", Version: "1.0.0", Log: log,
		NodeView: func() pod.Node { return pod.Node{} }, History: history,
	})
	must.OK(t, err)
	t.Cleanup(stop)
	served := httptest.NewServer(New(Options{
		Connect: func(ctx context.Context) (*query.Client, error) { return query.Dial(ctx, dir) },
		History: history, Version: "1.0.0", Now: func() time.Time { return now.Add(time.Hour) },
	}))
	t.Cleanup(served.Close)
	a := &testAgent{t, b, served.URL}
	a.add("u-web", "web")
	a.add("u-db", "db")
	a.exited(3)
	return a
}

func (a *testAgent) append(rec *journaletv1.Record, actor messages.Ref) {
	a.t.Helper()
	rec.Time, rec.Actor = timestamppb.New(now), actor.Proto()
	must.OK(a.t, a.bus.Journal().Append(rec))
	must.OK(a.t, a.bus.Journal().Flush(a.t.Context()))
}

// add records that a source was read, and that it adds a pod.
func (a *testAgent) add(uid, name string) {
	a.t.Helper()
	ref := &journaletv1.PodRef{Uid: uid, Namespace: "shop", Name: name, Digest: "sha256:" + strings.Repeat("0", 64)}
	a.append(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.ManifestsRead{
		Source:  messages.FileSource,
		Changed: []*journaletv1.ManifestFile{{Path: name + ".yaml", Pods: []*journaletv1.PodRef{ref}}},
	})}}, messages.Source(messages.FileSource))
	a.append(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
		Cause: a.bus.Journal().Last(), Decisions: []*journaletv1.Event{messages.NewEvent(&journaletv1.PodUpdated{
			Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: ref, Source: messages.FileSource,
		})},
	}}}, messages.Source(messages.FileSource))
}

// exited records that the container of web has exited.
func (a *testAgent) exited(code int32) {
	a.t.Helper()
	a.append(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.PodObserved{
		Uid: "u-web", PodNamespace: "shop", PodName: "web", Containers: []*journaletv1.ContainerObservation{{
			Id: "c1", Name: "main", State: journaletv1.ContainerState_CONTAINER_STATE_EXITED, ExitCode: code,
		}},
	})}}, messages.Pod("u-web"))
}
