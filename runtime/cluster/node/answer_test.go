package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// oneNode is an API server with one Node.
type oneNode struct {
	Requests
	node  *corev1.Node
	err   error
	reads int
}

// Node implements Requests. It has a deadline.
func (o *oneNode) Node(ctx context.Context) (*corev1.Node, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("a read without a deadline")
	}
	o.reads++
	return o.node.DeepCopy(), o.err
}

// One read answers all requests from before it; a failed read is an answer, too.
func TestNodeIsReadForDecisionsAndAFailureIsAnAnswer(t *testing.T) {
	api := &oneNode{node: &corev1.Node{}}
	api.node.UID, api.node.ResourceVersion, api.node.Labels = "u", "1", map[string]string{"zone": "a"}
	var facts []*journaletv1.NodeObserved
	d := New(Options{Requests: api, Sink: func(_ context.Context, m proto.Message) error {
		facts = append(facts, m.(*journaletv1.NodeObserved))
		return nil
	}})
	request := func(ids ...uint64) {
		step := &journaletv1.Step{}
		for _, id := range ids {
			step.Decisions = append(step.Decisions, messages.NewEvent(&journaletv1.NodeReadRequested{RequestId: id, Uid: "p"}))
		}
		d.Stored(&journaletv1.Record{Body: &journaletv1.Record_Step{Step: step}})
	}
	must.OK(t, d.answer(t.Context()))
	if api.reads != 0 || len(facts) != 0 {
		t.Fatalf("%d reads, recorded %v, although nothing was requested", api.reads, facts)
	}
	request(1, 2)
	must.OK(t, d.answer(t.Context()))
	must.OK(t, d.answer(t.Context()))
	if api.reads != 1 || len(facts) != 1 || facts[0].GetRequestId() != 2 || facts[0].GetLabels()["zone"] != "a" {
		t.Fatalf("%d reads, recorded %v", api.reads, facts)
	}
	request(3)
	must.OK(t, d.answer(t.Context()))
	if len(facts) != 2 || facts[1].GetRequestId() != 3 || facts[1].GetFailure() != "" {
		t.Fatalf("an unchanged Node is no answer: %v", facts)
	}
	request(4)
	api.err = errors.New("connection refused")
	must.OK(t, d.answer(t.Context()))
	if f := facts[len(facts)-1]; len(facts) != 3 || f.GetRequestId() != 4 || f.GetUid() != "u" ||
		!strings.Contains(f.GetFailure(), "connection refused") {
		t.Fatalf("recorded %v", facts)
	}
	must.OK(t, d.record(t.Context(), 0, ""))
	if len(facts) != 3 {
		t.Errorf("what is unchanged since the last answer is recorded again: %v", facts[3:])
	}
}
