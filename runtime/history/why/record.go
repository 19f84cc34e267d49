package why

import (
	"fmt"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// ofRecord answers why what a record holds was decided, or what a fact is.
func (x *explainer) ofRecord(q Query) (*Answer, error) {
	rec, err := x.j.get(q.Seq)
	if err != nil {
		return nil, err
	}
	a := x.newAnswer()
	a.Seq = rec.GetSeq()
	var chains []*Chain
	for _, e := range eventsOf(rec) {
		if !q.All && rec.GetStep() != nil && describe.IsBookkeeping(e.Body) && len(rec.GetStep().GetDecisions()) > 1 {
			continue
		}
		c, err := x.chain(e)
		if err != nil {
			return nil, err
		}
		x.learnNames(c)
		if i := slices.IndexFunc(chains, func(o *Chain) bool { return sameCauses(o, c) }); i >= 0 {
			a.Chains[i].Decisions = append(a.Chains[i].Decisions, x.line(e, q.All))
			continue
		}
		chains = append(chains, c)
		a.Chains = append(a.Chains, x.chainAnswer(c, q.All))
	}
	for _, c := range a.Chains {
		for _, l := range c.Decisions {
			if a.Summary != "" {
				a.Summary += "; "
			}
			a.Summary += l.Text
		}
	}
	a.Summary = fmt.Sprintf("%s: %s", x.who(rec), a.Summary)
	return a, nil
}

// who names the author of a record.
func (x *explainer) who(rec *journaletv1.Record) string {
	events := eventsOf(rec)
	if len(events) == 0 {
		return "record"
	}
	return x.d.Actor(events[0].Author)
}

// sameCauses reports whether two chains differ only in what they begin with.
func sameCauses(a, b *Chain) bool {
	return a.End.Kind == b.End.Kind && slices.EqualFunc(a.Events[1:], b.Events[1:], func(x, y Event) bool {
		return x.Seq == y.Seq && x.Index == y.Index
	})
}

func (x *explainer) chainAnswer(c *Chain, all bool) ChainAnswer {
	out := ChainAnswer{End: c.End, Causes: []Line{}}
	// The oldest first: names and calls are known when they are referred to.
	lines := make([]Line, len(c.Events))
	for i, e := range slices.Backward(c.Events) {
		lines[i] = x.line(e, all)
		lines[i].Relation = c.Relations[i]
	}
	out.Decisions, out.Causes = lines[:1:1], lines[1:]
	return out
}

// learnNames has the describer know the names of the pods in a chain, which most often holds them.
func (x *explainer) learnNames(c *Chain) {
	for _, e := range slices.Backward(c.Events) {
		for _, ref := range history.NamedPods(e.Body) {
			x.d.Name(ref.GetUid(), ref.GetNamespace(), ref.GetName())
			x.named[ref.GetUid()] = true
		}
		if uid := e.uid(); uid != "" {
			x.learnName(uid, c.Events[0].Seq)
		}
	}
}
