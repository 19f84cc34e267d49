package credentials

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
)

// Seed takes what the journal knows of pulls. The records that the image actor has not handled go to Stored.
func (d *Driver) Seed(s *journaletv1.ImageState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, p := range s.GetPulled() {
		d.pulled[id] = proto.CloneOf(p)
	}
	for _, p := range s.GetPulls() {
		d.pending[p.GetIntentId()] = p.GetImage()
	}
}

// Stored handles a stored record.
func (d *Driver) Stored(rec *journaletv1.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := rec.GetTime().AsTime()
	switch k := rec.GetFact().GetKind().(type) {
	case *journaletv1.Event_CallFinished:
		delete(d.pending, k.CallFinished.GetIntentId())
		image.RecordPull(d.pulled, k.CallFinished, at)
	case *journaletv1.Event_ImagesObserved:
		image.ForgetImages(d.pulled, k.ImagesObserved, at)
	}
	for i, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_CallRequested:
			if p := k.CallRequested.GetPullImage(); p != nil {
				author := messages.RefOf(rec.GetActor())
				d.pending[messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, i)] = p.GetImage()
			}
		case *journaletv1.Event_CallDropped:
			delete(d.pending, k.CallDropped.GetIntentId())
		}
	}
}

// MustPull reports whether a pod may have an image that is on the node only after a pull of its own: it needed
// credentials, and the pod does not have them as far as the journal knows. id is the runtime's id of the image.
func (d *Driver) MustPull(ctx context.Context, pod *corev1.Pod, imageName, id string) bool {
	record, pulled := d.recordOf(imageName, id)
	switch {
	case !d.opts.Policy.Verifies(imageName, pulled):
		return false
	case record == nil:
		return true
	case record.GetNodeAccessible():
		return false
	}
	if d.hasSecret(ctx, pod, imageName, record) || d.hasAccount(pod, imageName, record) {
		return false
	}
	// The pod reports the image as missing, as with the kubelet: only the operator is to know that it is there.
	d.opts.Log.Info("an image on the node was pulled with credentials that this pod does not have; it has to pull it",
		"image", imageName, "pod", pod.Namespace+"/"+pod.Name)
	return true
}

// recordOf returns with which credentials an image was pulled from the repository in its name, nil if that is not
// known; pulled is whether the agent has pulled it, by any name, or is about to.
func (d *Driver) recordOf(imageName, id string) (record *journaletv1.PullCredentials, pulled bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pulled[id]
	for _, c := range p.GetCredentials() {
		if c.GetRepository() == Repository(imageName) {
			record = proto.CloneOf(c)
		}
	}
	pulled = p != nil
	for _, other := range d.pending {
		pulled = pulled || other == imageName
	}
	return record, pulled
}

// hasSecret reports whether a pod has one of the recorded Secrets, whatever it holds by now, or another one with one of
// the recorded credentials.
func (d *Driver) hasSecret(
	ctx context.Context, pod *corev1.Pod, imageName string, record *journaletv1.PullCredentials,
) bool {
	if len(record.GetSecrets()) == 0 {
		return false
	}
	repository, err := registryName(imageName)
	if err != nil {
		return false
	}
	ring, _ := d.secrets(ctx, objects.OwnerOf(pod), references.PullSecrets(pod))
	return slices.ContainsFunc(ring.lookup(repository), func(c Candidate) bool {
		return slices.ContainsFunc(record.GetSecrets(), func(s *journaletv1.PullSecret) bool {
			return image.SameSecret(s, c.secret) || s.GetDigest() == c.secret.GetDigest()
		})
	})
}

// hasAccount reports whether a plugin uses the token of the pod's service account for the image, and the image was
// pulled with such a token of that account.
func (d *Driver) hasAccount(pod *corev1.Pod, imageName string, record *journaletv1.PullCredentials) bool {
	name := pod.Spec.ServiceAccountName
	if name == "" || d.opts.Providers == nil {
		return false
	}
	repository, err := registryName(imageName)
	return err == nil && d.opts.Providers.useAccounts(repository) &&
		slices.Contains(record.GetServiceAccounts(), accountID(pod.Namespace, name))
}
