package query

import (
	"context"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// maxProblems bounds the problems of one response; what is more is counted.
const maxProblems = 100

// Problem is one thing that keeps a pod of a source from running.
type Problem struct {
	Source string `json:"source"`
	source.Problem
}

// ProblemList has the problems of all sources.
type ProblemList struct {
	Problems []Problem `json:"problems"`
	// More is how many others there are.
	More int `json:"more,omitempty"`
}

// Problems returns what keeps pods of the node's sources from running.
func (c *Client) Problems(ctx context.Context) (*ProblemList, error) {
	a := &ProblemList{}
	return a, c.request(ctx, PodsProblems, struct{}{}, a, clientTimeout)
}

// listProblems lists the problems of sources that respond in time.
func (s *server) listProblems(ctx context.Context, _ struct{}) (*ProblemList, error) {
	all := []Problem{}
	patience := waitBudget(actorsTimeout)
	for _, ref := range s.Host.Refs(journaletv1.ActorKind_ACTOR_KIND_SOURCE) {
		all = append(all, s.problemsOf(ctx, ref, &patience)...)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	shown := all[:min(len(all), maxProblems)]
	return &ProblemList{Problems: shown, More: len(all) - len(shown)}, nil
}

// problemsOf returns the problems of one source, none if it does not respond.
func (s *server) problemsOf(ctx context.Context, ref messages.Ref, p *waitBudget) (all []Problem) {
	found, _, _ := inspectAs(ctx, s, ref, p, func(d actors.Decider) ([]source.Problem, bool) {
		a, ok := d.(*source.Actor)
		if !ok {
			return nil, false
		}
		return source.Problems(a.Source()), true
	})
	for _, one := range found {
		all = append(all, Problem{ref.ID, one})
	}
	return all
}
