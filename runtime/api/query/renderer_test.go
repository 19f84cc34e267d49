package query

import (
	"context"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/history/describe"
)

func TestRendererFetchesOnlyCausesItHasNotRendered(t *testing.T) {
	w := restartedAgent(t)
	c := w.client(t)
	fetched := 0
	renderer := describe.NewRenderer(describe.New(), func(ctx context.Context, seq uint64) ([]describe.Line, error) {
		fetched++
		return c.Lines(ctx, seq)
	})
	page, err := c.Read(testContext(t), ReadRequest{From: 4})
	if err != nil {
		t.Fatal(err)
	}
	var causes []string
	for _, f := range page.Events {
		if l := renderer.Render(testContext(t), f); l.Cause > 0 {
			causes = append(causes, l.CauseText)
		}
	}
	// The cause of record 4 (two decisions) is 3, which was not rendered; the cause of 8 (two) and 9 is 7, which was.
	if fetched != 1 || len(causes) != 5 || !strings.HasPrefix(causes[0], "image busybox:1.36 present") ||
		causes[4] != "container main exited 1 (Error)" {
		t.Fatalf("fetched %d records, causes %q", fetched, causes)
	}
}
