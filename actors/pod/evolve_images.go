package pod

import (
	"fmt"

	"github.com/journalet/journalet/messages/journaletv1"
)

// eachOf does something to the record of every container with this image.
func (a *Actor) eachOf(image string, do func(*journaletv1.ContainerRecord)) {
	for c := range a.all() {
		if c.Image == image {
			do(a.keep(c.Name))
		}
	}
}

// evolveAsked notes which containers wait for an image: those whose turn it is. One that comes later asks for itself, so
// that what is pulled at each start is pulled for it, too.
func (a *Actor) evolveAsked(image string) {
	for c := range a.all() {
		if c.Image == image && a.atTurn(c) {
			r := a.keep(c.Name)
			r.ImageRequested = !running(r.GetCurrent())
		}
	}
}

func (a *Actor) evolveAnswered(r *journaletv1.ImagePullDecided) {
	ok := r.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	a.eachOf(r.GetImage(), func(rec *journaletv1.ContainerRecord) {
		if !rec.GetImageRequested() {
			return
		}
		if ok {
			rec.ImageRequested, rec.ImageMissing, rec.ImageReady, rec.StartError = false, false, true, nil
			return
		}
		rec.StartError = pullError(r)
	})
}

// pullError is what a failed pull leaves as the reason for waiting: the error's own name is in the
// message, since the pod waits out a back-off from the moment that it is told.
func pullError(r *journaletv1.ImagePullDecided) *journaletv1.ContainerWaiting {
	name := "ErrImagePull"
	switch r.GetError() {
	case journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME:
		return &journaletv1.ContainerWaiting{Reason: reasonInvalidImage, Message: r.GetMessage()}
	case journaletv1.CallError_CALL_ERROR_REGISTRY_UNAVAILABLE:
		name = "RegistryUnavailable"
	case journaletv1.CallError_CALL_ERROR_SIGNATURE_VALIDATION:
		name = "SignatureValidationFailed"
	}
	return &journaletv1.ContainerWaiting{
		Reason:  reasonPullBackOff,
		Message: fmt.Sprintf("Back-off pulling image %q: %s: %s", r.GetImage(), name, r.GetMessage()),
	}
}
