package pod

import (
	"fmt"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
)

// eachWithImage calls do with the record of every container with this image.
func (a *Actor) eachWithImage(image string, do func(*journaletv1.ContainerRecord)) {
	for c := range containers.All(a.manifest) {
		if c.Image == image {
			do(a.ensureRecord(c.Name))
		}
	}
}

// evolvePullRequested records which containers wait for an image: the containers that may start now. A container that
// may start later requests the image itself, so that an image of policy Always is pulled for its start, too. A
// container that waits for a delay would count as having waited once the image is there.
func (a *Actor) evolvePullRequested(image string) {
	for c := range containers.All(a.manifest) {
		own, mounted := c.Image == image, a.mountsImage(c, image)
		if !own && !mounted || !a.mayStart(c) {
			continue
		}
		r := a.ensureRecord(c.Name)
		waits := !running(r.GetCurrent()) && !a.calling(forContainer(c.Name)) && !a.delayed(c.Name)
		if own {
			r.ImageRequested = waits
		}
		if mounted {
			ensureVolumeImage(r, image).Requested = waits
		}
	}
}

func (a *Actor) evolvePullWithdrawn(image string) {
	a.eachWithImage(image, func(r *journaletv1.ContainerRecord) { r.ImageRequested = false })
	for c := range containers.All(a.manifest) {
		if v := a.record(c.Name).GetVolumeImages()[image]; v != nil {
			v.Requested = false
		}
	}
}

// delayed reports whether a container waits for its back-off, or for the delay after a failed start.
func (a *Actor) delayed(name string) bool {
	set := a.state.GetTimers().GetSet()
	return set[backOffTimer+name] != nil || set[startTimer+name] != nil
}

func (a *Actor) evolvePullDecided(r *journaletv1.ImagePullDecided) {
	ok := r.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	a.eachWithImage(r.GetImage(), func(rec *journaletv1.ContainerRecord) {
		if !rec.GetImageRequested() {
			return
		}
		if ok {
			rec.ImageRequested, rec.ImageMissing, rec.ImageReady = false, false, true
			if !awaitsImages(rec) {
				rec.StartError = nil
			}
			return
		}
		rec.StartError = pullError(r)
	})
	a.evolveVolumePullDecided(r)
}

// pullError returns the container's reason for waiting after a failed pull. The message names the error, since the
// reason is ImagePullBackOff from the first report on.
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
