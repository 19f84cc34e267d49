package query

import (
	"context"

	"github.com/journalet/journalet/bus"
)

// prune cuts the journal's oldest records, or reports which it would cut.
func (s *server) prune(ctx context.Context, q PruneRequest) (*bus.Pruned, error) {
	if s.Prune == nil {
		return nil, &Error{CodeUnavailable, "this agent does not prune its journal on request"}
	}
	if q.Before == 0 && q.KeepBytes == 0 {
		return nil, badRequest("a prune needs a bound: the first record or the bytes that stay")
	}
	s.Log.Info("pruning the journal", "before", q.Before, "keepBytes", q.KeepBytes, "dryRun", q.DryRun)
	p, err := s.Prune(ctx, bus.Retention{Before: q.Before, Bytes: q.KeepBytes}, q.DryRun)
	if err != nil {
		return nil, err
	}
	return &p, nil
}
