package trace

import (
	"context"
	"fmt"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/start"
)

// Recorded are starts that a journal holds.
type Recorded struct {
	// Node is the node's name; its token, if the journal no longer holds a start of the agent.
	Node string
	// Starts are in the order of their ends, and then the open ones.
	Starts []*start.Start
	// End is the time of the last record.
	End time.Time
}

// Read returns the starts of the pods that match a name, namespace/name or UID. progress may be nil; it is called with
// records read and records to read.
func Read(ctx context.Context, r history.Reader, pod string, progress func(done, total uint64)) (Recorded, error) {
	out := Recorded{Node: r.Node()}
	first, last := r.Bounds()
	if first > last {
		return out, nil
	}
	c := start.NewCollector()
	keep := func(all []*start.Start) {
		for _, s := range all {
			if s.UID == pod || history.MatchesName(pod, out.Node, s.Namespace, s.Name) {
				out.Starts = append(out.Starts, s)
			}
		}
	}
	err := r.Read(ctx, first, 0, func(e history.Entry) error {
		rec, err := e.Record()
		if err != nil {
			return fmt.Errorf("record %d: %w", e.Seq, err)
		}
		if name := nodeIn(rec); name != "" {
			out.Node = name
		}
		out.End = rec.GetTime().AsTime()
		keep(c.Add(rec))
		if progress != nil && e.Seq%4096 == 0 {
			progress(e.Seq-first, last-first)
		}
		return ctx.Err()
	})
	if err != nil {
		return out, fmt.Errorf("read the starts of pods: %w", err)
	}
	keep(c.Open())
	return out, nil
}

func nodeIn(rec *journaletv1.Record) string {
	if k := rec.GetFact().GetAgentStarted(); k != nil {
		return k.GetConfig().GetNodeName()
	}
	return ""
}
