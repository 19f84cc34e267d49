package journal

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history/why"
)

// why answers why a pod is as it is, why a container was restarted or why a record was written, as `journalet why -o
// json` does. The parameters are the fields of why.Query.
func (s *server) why(w http.ResponseWriter, r *http.Request) error {
	p := parametersOf(r.URL)
	q := why.Query{
		Seq: p.number("seq", 64), Pod: p.text("pod"), Namespace: p.text("namespace"), UID: p.text("uid"),
		Container: p.text("container"), Restart: uint32(p.number("restart", 32)), All: p.yes("all"),
	}
	if err := p.end(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	return s.connect(ctx, func(c *query.Client) error {
		answer, err := c.Why(ctx, q)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		return json.NewEncoder(w).Encode(answer)
	})
}
