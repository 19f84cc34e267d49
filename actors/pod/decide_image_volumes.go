package pod

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

// An image volume is an image that the runtime mounts. Like the container's own image it has to be on the node before
// the container starts, and its pullPolicy says when it is pulled. As with the kubelet, it holds up the containers that
// mount it and no others, with the reasons of their own images.

// volumeImages yields the references and pull policies of the image volumes that a container mounts, each volume once.
func (a *Actor) volumeImages(c *corev1.Container) iter.Seq2[string, corev1.PullPolicy] {
	return func(yield func(string, corev1.PullPolicy) bool) {
		if a.manifest == nil {
			return
		}
		for i := range a.manifest.Spec.Volumes {
			v := &a.manifest.Spec.Volumes[i]
			mounted := func(m corev1.VolumeMount) bool { return m.Name == v.Name }
			if v.Image != nil && slices.ContainsFunc(c.VolumeMounts, mounted) &&
				!yield(v.Image.Reference, v.Image.PullPolicy) {
				return
			}
		}
	}
}

// mountsImage reports whether a container mounts an image volume of this image.
func (a *Actor) mountsImage(c *corev1.Container, image string) bool {
	for reference := range a.volumeImages(c) {
		if reference == image {
			return true
		}
	}
	return false
}

// missesImage reports whether the last start found that an image is missing which has to be pulled before the next one.
func (d *step) missesImage(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	if r.GetImageMissing() && d.needsImage(c, r) {
		return true
	}
	for reference, policy := range d.volumeImages(c) {
		if v := r.GetVolumeImages()[reference]; v.GetMissing() && needsVolumeImage(v, policy) {
			return true
		}
	}
	return false
}

// needsImages reports whether an image has to be pulled before the next start: the container's own or a volume's.
func (d *step) needsImages(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	if d.needsImage(c, r) {
		return true
	}
	for reference, policy := range d.volumeImages(c) {
		if needsVolumeImage(r.GetVolumeImages()[reference], policy) {
			return true
		}
	}
	return false
}

// needsVolumeImage is needsImage for the image of a volume.
func needsVolumeImage(v *journaletv1.VolumeImage, policy corev1.PullPolicy) bool {
	switch {
	case v.GetReady() || policy == corev1.PullNever:
		return false
	case policy == corev1.PullAlways:
		return true
	}
	return v.GetMissing()
}

// requestImages requests the pulls that the next start needs, unless they are under way: all at once. A delay that is
// over before its timer fires would have the container count as waiting for the delay, not for its images.
func (d *step) requestImages(c *corev1.Container, r *journaletv1.ContainerRecord) {
	d.clearDelays(c.Name)
	if d.needsImage(c, r) && !r.GetImageRequested() {
		d.decide(d.pullRequest(c.Image))
	}
	for reference, policy := range d.volumeImages(c) {
		v := d.record(c.Name).GetVolumeImages()[reference]
		if !needsVolumeImage(v, policy) || v.GetRequested() {
			continue
		}
		d.decide(d.pullRequest(reference))
	}
}

// pullRequest requests the pull of an image with what the pod offers as credentials, by name. Without any their
// namespace is left out.
func (d *step) pullRequest(image string) *journaletv1.ImagePullRequested {
	r := &journaletv1.ImagePullRequested{
		Uid: d.self.ID, Image: image, PullSecrets: references.PullSecrets(d.manifest),
		IfNotPresent: !d.pullsAlways(image), Pod: d.podOfPull(),
	}
	if !d.state.GetPullsWithoutServiceAccount() {
		r.ServiceAccount = d.manifest.Spec.ServiceAccountName
	}
	if len(r.GetPullSecrets()) > 0 || r.GetServiceAccount() != "" {
		r.Namespace, r.Api = d.manifest.Namespace, d.state.GetPod().GetApi() != nil
	}
	return r
}

// pullsAlways reports whether a container has this image, or mounts it, with the policy Always.
func (d *step) pullsAlways(image string) bool {
	for c := range containers.All(d.manifest) {
		if c.Image == image && c.ImagePullPolicy == corev1.PullAlways {
			return true
		}
		for reference, policy := range d.volumeImages(c) {
			if reference == image && policy == corev1.PullAlways {
				return true
			}
		}
	}
	return false
}

// renewPulls requests the pulls again that the pod waits for, once their credentials have changed.
func (d *step) renewPulls() {
	if !d.state.GetPullCredentialsChanged() || d.state.GetStage() != runningPod || d.manifest == nil {
		return
	}
	var images []string
	for c := range containers.All(d.manifest) {
		images = append(images, d.awaitedImages(c)...)
	}
	slices.Sort(images)
	for _, image := range slices.Compact(images) {
		r := d.pullRequest(image)
		r.CredentialsChanged = true
		d.decide(r)
	}
}

// pulledVolumeImages returns the references of the image volumes that were pulled for the next start, sorted.
func pulledVolumeImages(r *journaletv1.ContainerRecord) []string {
	var out []string
	for _, reference := range slices.Sorted(maps.Keys(r.GetVolumeImages())) {
		if r.GetVolumeImages()[reference].GetReady() {
			out = append(out, reference)
		}
	}
	return out
}

// triedBefore reports whether an image was pulled because an earlier attempt of this start missed it.
func (a *Actor) triedBefore(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	if r.GetImageReady() && c.ImagePullPolicy != corev1.PullAlways {
		return true
	}
	for reference, policy := range a.volumeImages(c) {
		if r.GetVolumeImages()[reference].GetReady() && policy != corev1.PullAlways {
			return true
		}
	}
	return false
}

// awaitsImages reports whether a container waits for a pull.
func awaitsImages(r *journaletv1.ContainerRecord) bool {
	awaits := r.GetImageRequested()
	eachVolumeImage(r, func(v *journaletv1.VolumeImage) { awaits = awaits || v.GetRequested() })
	return awaits
}

// awaitedImages returns the images whose pulls a container waits for: its own image, then the images of its volumes,
// sorted.
func (a *Actor) awaitedImages(c *corev1.Container) []string {
	r := a.record(c.Name)
	var out []string
	if r.GetImageRequested() {
		out = append(out, c.Image)
	}
	for _, reference := range slices.Sorted(maps.Keys(r.GetVolumeImages())) {
		if r.GetVolumeImages()[reference].GetRequested() {
			out = append(out, reference)
		}
	}
	return out
}
