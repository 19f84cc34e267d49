package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
)

// ensureVolumeImage returns what is known of the image of a volume, which it creates if need be. Only Evolve may call
// it.
func ensureVolumeImage(r *journaletv1.ContainerRecord, reference string) *journaletv1.VolumeImage {
	if r.VolumeImages == nil {
		r.VolumeImages = map[string]*journaletv1.VolumeImage{}
	}
	v := r.VolumeImages[reference]
	if v == nil {
		v = new(journaletv1.VolumeImage)
		r.VolumeImages[reference] = v
	}
	return v
}

// eachVolumeImage calls do with what is known of each image volume of a container.
func eachVolumeImage(r *journaletv1.ContainerRecord, do func(*journaletv1.VolumeImage)) {
	for _, reference := range slices.Sorted(maps.Keys(r.GetVolumeImages())) {
		do(r.GetVolumeImages()[reference])
	}
}

// awaitNoImage folds that a container waits for no pull.
func awaitNoImage(r *journaletv1.ContainerRecord) {
	r.ImageRequested = false
	eachVolumeImage(r, func(v *journaletv1.VolumeImage) { v.Requested = false })
}

// evolveVolumePullDecided folds the outcome of a pull for the containers that mount the image.
func (a *Actor) evolveVolumePullDecided(p *journaletv1.ImagePullDecided) {
	for c := range containers.All(a.manifest) {
		r := a.state.Containers[c.Name]
		v := r.GetVolumeImages()[p.GetImage()]
		switch {
		case !v.GetRequested():
		case p.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED:
			r.StartError = pullError(p)
		default:
			v.Requested, v.Missing, v.Ready = false, false, true
			if !awaitsImages(r) {
				r.StartError = nil
			}
		}
	}
}

// evolveVolumeImageMissing folds that a start did not find the image of a volume. It found the others: the container's
// own image is checked first.
func (a *Actor) evolveVolumeImageMissing(r *journaletv1.ContainerRecord, f *journaletv1.CallFinished) (never bool) {
	missing := f.GetMissingVolumeImage()
	r.ImageMissing = false
	ensureVolumeImage(r, missing)
	eachVolumeImage(r, func(v *journaletv1.VolumeImage) { v.Missing = v == r.VolumeImages[missing] })
	if c := a.spec(r.GetName()); c != nil {
		for reference, policy := range a.volumeImages(c) {
			never = never || reference == missing && policy == corev1.PullNever
		}
	}
	return never
}
