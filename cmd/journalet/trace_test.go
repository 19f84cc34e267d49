package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func TestTraceIsPrintedAsOneLineForEachStart(t *testing.T) {
	root := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Options{
		Dir: root + "/" + busDir, Node: "n.example", Log: slog.New(slog.DiscardHandler),
	})
	must.OK(t, err)
	ref := &journaletv1.PodRef{Uid: "u", Namespace: "default", Name: "web-n.example"}
	for i, e := range []*journaletv1.Event{
		messages.NewEvent(&journaletv1.AgentStarted{Config: &journaletv1.AgentConfig{NodeName: "n.example"}}),
		messages.NewEvent(&journaletv1.PodUpdated{Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: ref}),
		messages.NewEvent(&journaletv1.PodUpdated{Operation: journaletv1.PodOperation_POD_OPERATION_REMOVE, Pod: ref}),
		messages.NewEvent(&journaletv1.PodUpdated{Operation: journaletv1.PodOperation_POD_OPERATION_ADD, Pod: ref}),
	} {
		rec := fact(messages.Agent, now.Add(time.Duration(i)*time.Second), e)
		if i > 0 {
			rec.Actor = messages.Source("file").Proto()
			rec.Body = &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: 1, Decisions: []*journaletv1.Event{e}}}
		}
		must.OK(t, b.Journal().Append(rec))
	}
	must.OK(t, b.Journal().Flush(t.Context()))
	must.OK(t, b.Close(t.Context()))
	for args, lines := range map[string]int{"web": 1, "default/web-n.example": 1, "u": 1, "web --all": 2} {
		code, out, errs := run(t.Context(), append([]string{"trace", "--journal", root}, strings.Fields(args)...)...)
		if code != exitOK || strings.Count(out, "\n") != lines || errs != "" {
			t.Errorf("trace %s: exit code %d, %d lines, %s", args, code, strings.Count(out, "\n"), errs)
		}
		for line := range strings.Lines(out) {
			var v struct {
				ResourceSpans []struct {
					ScopeSpans []struct{ Spans []struct{ Name string } }
				}
			}
			must.OK(t, json.Unmarshal([]byte(line), &v))
			if spans := v.ResourceSpans[0].ScopeSpans[0].Spans; len(spans) != 2 || spans[0].Name != "pod start" {
				t.Errorf("trace %s: %s", args, line)
			}
		}
	}
	code, _, errs := run(t.Context(), "trace", "nobody", "--journal", root)
	if code != exitNotFound || !strings.Contains(errs, "no start of a pod nobody") {
		t.Errorf("of no pod: exit code %d, %s", code, errs)
	}
}
