package query

import (
	"context"
	"errors"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/why"
)

// maxWhyRecords bounds how many records the agent reads to answer one query. Causes are near their effects: most
// answers read a few thousand.
const maxWhyRecords = 500_000

// why answers a query about causes. It reads the journal's files, not the bus: that costs the agent no more than a
// reader beside it would.
func (s *server) why(ctx context.Context, q why.Query) (*why.Answer, error) {
	if q.Seq == 0 && q.Pod == "" {
		return nil, badRequest("neither a pod nor a record is given: want one of them")
	}
	if s.History == nil {
		return nil, &Error{CodeUnavailable, "this agent does not read its journal's files"}
	}
	if q.Limit <= 0 || q.Limit > maxWhyRecords {
		q.Limit = maxWhyRecords
	}
	r, err := s.History(ctx)
	if err != nil {
		return nil, err
	}
	a, err := why.Explain(ctx, r, q)
	var missing *why.NotFoundError
	var several *why.AmbiguousError
	switch {
	case errors.As(err, &missing), errors.As(err, &several), errors.Is(err, history.ErrGone),
		errors.Is(err, history.ErrNoRecord):
		return nil, notFound("%v", err)
	}
	return a, err
}

// Why answers why a record was written, or why a pod is as it is.
func (c *Client) Why(ctx context.Context, q why.Query) (*why.Answer, error) {
	a := &why.Answer{}
	return a, c.request(ctx, JournalWhy, q, a, clientTimeout)
}
