package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// eventsBuffer is how much of the past is written at once.
const eventsBuffer = 64 << 10

// Event is a line of /journal/events.
type Event struct {
	describe.Line
	// Actor is the author, with a pod's name instead of its UID where it is known.
	Actor string `json:"actor"`
}

// events answers with events, each as JSON on a line. With follow the response ends when the client leaves or the agent
// stops; who lost it continues with the parameter from.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	p := parametersOf(r.URL)
	q := query.WatchRequest{
		From: p.number("from", 64), Since: p.since("since", s.Now()), Follow: p.yes("follow"), Filter: history.Filter{
			Pods: p.all("pod"), Namespace: p.text("namespace"), Kind: p.text("kind"), Author: p.text("author"),
			Events: p.all("event"), Quiet: p.yes("quiet"), Cause: p.number("cause", 64),
		},
	}
	q.All = !q.Follow
	if err := p.end(); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return badRequest(err.Error())
	}
	return s.connect(r.Context(), func(c *query.Client) error {
		return s.watch(r.Context(), c, q, w)
	})
}

// watch writes the events: with follow each as it comes, otherwise many at once.
func (s *server) watch(ctx context.Context, c *query.Client, q query.WatchRequest, w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(w, eventsBuffer)
	encoder := json.NewEncoder(out)
	names := c.Names(ctx)
	renderer := describe.NewRenderer(names, c.Lines)
	err := c.Watch(ctx, q, func(f messages.Flat) error {
		e := Event{renderer.Render(ctx, f), f.Author}
		if author, err := messages.ParseRef(f.Author); err == nil {
			e.Actor = names.Actor(author)
		}
		if err := encoder.Encode(e); err != nil || !q.Follow {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	})
	if err != nil {
		return err
	}
	return out.Flush()
}
