package replay

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

var (
	// errDiffers ends a decider at its first decision that is not the recorded one.
	errDiffers    = errors.New("the decision differs")
	errIncomplete = errors.New("the source does not hold all records of the actor")
)

// Divergence is a decision that is not as recorded, or a record that can no longer be folded.
type Divergence struct {
	// Seq is the recorded step; without a recorded step, it is the same as Cause. Cause is the record that the actor
	// decides on.
	Seq   uint64 `json:"seq"`
	Cause uint64 `json:"cause"`
	// Actor is kind/id, Pod its namespace/name if it is a pod with a known name.
	Actor string `json:"actor"`
	Pod   string `json:"pod,omitempty"`
	// Index is the decision's place in the step, from 0.
	Index int `json:"index"`
	// Recorded and Now are the decisions' names, such as call_requested; empty for none.
	Recorded string `json:"recorded,omitempty"`
	Now      string `json:"now,omitempty"`
	// Fields are the fields that differ.
	Fields []Field `json:"fields,omitempty"`
	// Error is why the record cannot be folded. Without the fold there is no decision to compare.
	Error string `json:"error,omitempty"`
}

// String returns a divergence in words: "record 12, pod/a (default/web), on record 11: call_requested.attempt: 1
// recorded, 2 now".
func (d *Divergence) String() string {
	who := d.Actor
	if d.Pod != "" {
		who += " (" + d.Pod + ")"
	}
	var what []string
	switch {
	case d.Error != "":
		what = append(what, "cannot be folded: "+d.Error)
	case d.Now == "":
		what = append(what, fmt.Sprintf("decision %d: %s recorded, none now", d.Index, d.Recorded))
	case d.Recorded == "":
		what = append(what, fmt.Sprintf("decision %d: none recorded, %s now", d.Index, d.Now))
	case d.Now != d.Recorded:
		what = append(what, fmt.Sprintf("decision %d: %s recorded, %s now", d.Index, d.Recorded, d.Now))
	default:
		for _, f := range d.Fields {
			what = append(what, f.String())
		}
	}
	return fmt.Sprintf("record %d, %s, on record %d: %s", d.Seq, who, d.Cause, strings.Join(what, "; "))
}

func newDivergence(c *fold.Cell, d *fold.Delivery, step *journaletv1.Record, index int,
	recorded, now *journaletv1.Event, fail *fold.Failure) *Divergence {
	x := &Divergence{Seq: d.Seq(), Cause: d.Seq(), Actor: c.Ref.String(), Pod: podName(c), Index: index}
	if step != nil {
		x.Seq = step.GetSeq()
	}
	if fail != nil {
		x.Error, _, _ = strings.Cut(fail.Err.Error(), "\n")
		return x
	}
	x.Recorded, x.Now = messages.EventName(recorded), messages.EventName(now)
	if x.Recorded == x.Now {
		x.Fields = Differences(recorded, now)
	}
	return x
}

// podName returns the namespace and name of a pod's actor, "" if it has none.
func podName(c *fold.Cell) string {
	if a, ok := c.Decider.(*pod.Actor); ok && a.Pod().GetPod().GetName() != "" {
		return a.Pod().GetPod().GetNamespace() + "/" + a.Pod().GetPod().GetName()
	}
	return ""
}

// equal reports whether two decisions are the same.
func equal(a, b *journaletv1.Event) bool { return proto.Equal(a, b) }
