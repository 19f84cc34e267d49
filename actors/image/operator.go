package image

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// operatorPull requests a pull with the node's own credentials and without a pod, unless such a pull of the image is
// under way: its outcome is this request's, too.
func (a *Actor) operatorPull(r *journaletv1.OperatorPullRequested, emit actors.Emit) {
	work := &journaletv1.PullImage{Image: r.GetImage()}
	if a.state.Pulls[pullKey(work)] != nil {
		return
	}
	emit(messages.NewEvent(messages.NewCall(work)))
}

// operatorPulled emits the outcome of a finished pull for the operators that requested it.
func (a *Actor) operatorPulled(in actors.Input, f *journaletv1.CallFinished, emit actors.Emit) {
	ended := a.state.GetEnded()
	for _, id := range slices.Sorted(maps.Keys(a.state.OperatorPulls)) {
		if pullKey(&journaletv1.PullImage{Image: a.state.OperatorPulls[id].GetImage()}) != pullKey(ended) {
			continue
		}
		d := &journaletv1.OperatorPullDecided{
			RequestId: id, Image: ended.GetImage(), Error: f.GetError(), Message: f.GetMessage(),
			ImageRef: f.GetImageRef(), Bytes: f.GetImageBytes(),
			Duration: durationpb.New(in.Time.Sub(ended.GetStartedAt().AsTime())),
		}
		emit(messages.NewEvent(d))
	}
}

// operatorRemoval requests a removal, refuses it, or joins the one under way. Whether the image is in use is found out
// right before it is removed: what was observed may be minutes old.
func (a *Actor) operatorRemoval(r *journaletv1.ImageRemovalRequested, emit actors.Emit) {
	record := a.state.Images[r.GetImageId()]
	refusal := ""
	switch {
	case slices.Contains(slices.Sorted(maps.Values(a.state.Removals)), r.GetImageId()):
		return
	case record.GetObserved().GetPinned():
		refusal = "the runtime keeps it for itself (pinned)"
	case isRequested(record.GetObserved(), a.requested()):
		refusal = "it is being pulled, or a pod waits for it"
	}
	if refusal != "" {
		emit(removalDecided(r, refusal))
		return
	}
	work := &journaletv1.RemoveImage{ImageId: r.GetImageId(), Name: r.GetName(), Reason: "requested by an operator"}
	emit(messages.NewEvent(messages.NewCall(work)))
}

// operatorRemoved emits the outcome of a finished removal for the operators that requested it.
func (a *Actor) operatorRemoved(f *journaletv1.CallFinished, emit actors.Emit) {
	why := ""
	if f.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED || f.GetImageInUse() {
		why = cmp.Or(f.GetMessage(), "the runtime failed to remove it")
	}
	for _, id := range slices.Sorted(maps.Keys(a.state.OperatorRemovals)) {
		r := a.state.OperatorRemovals[id]
		if r.GetImageId() != a.state.GetEndedRemoval() {
			continue
		}
		emit(removalDecided(r, why))
	}
}

func removalDecided(r *journaletv1.ImageRemovalRequested, why string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.ImageRemovalDecided{
		RequestId: r.GetRequestId(), ImageId: r.GetImageId(), Name: r.GetName(), Message: why,
	})
}
