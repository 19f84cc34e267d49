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
	case *journaletv1.Event_AgentStarted:
		image.RecordKubelet(d.pulled, k.AgentStarted.GetKubeletState())
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
	return d.mustPull(ctx, imageName, id, "", puller{
		objects.OwnerOf(pod), references.PullSecrets(pod), pod.Spec.ServiceAccountName, pod.Namespace + "/" + pod.Name,
	})
}

// StillPulls is MustPull for the pods of a pull that is about to begin for an intent.
func (d *Driver) StillPulls(ctx context.Context, pull *journaletv1.PullImage, intent, id string) bool {
	return d.mustPull(ctx, pull.GetImage(), id, intent, puller{
		objects.Owner{Namespace: pull.GetNamespace(), API: pull.GetApi()}, pull.GetPullSecrets(), pull.GetServiceAccount(),
		"those that wait for the pull",
	})
}

// puller is a pod that wants an image, or several with the same credentials.
type puller struct {
	owner   objects.Owner
	secrets []string
	account string
	name    string // for people
}

// mustPull is MustPull. The pull of the intent, if there is one, has not begun and has brought nothing.
func (d *Driver) mustPull(ctx context.Context, imageName, id, intent string, by puller) bool {
	record, pulled := d.recordOf(imageName, id, intent)
	switch {
	case !d.opts.Policy.Verifies(imageName, pulled):
		return false
	case record == nil:
		return true
	case record.GetNodeAccessible():
		return false
	}
	if d.hasSecret(ctx, by, imageName, record) || d.hasAccount(by, imageName, record) {
		return false
	}
	// The pod reports the image as missing, as with the kubelet: only the operator is to know that it is there.
	d.opts.Log.Info("an image on the node was pulled with credentials that this pod does not have; it has to pull it",
		"image", imageName, "pod", by.name)
	return true
}

// recordOf returns the credentials that an image was pulled with from the repository in its name, nil if they are not
// known; pulled is whether the agent has pulled the image, by any name, or is about to for another intent.
func (d *Driver) recordOf(imageName, id, intent string) (record *journaletv1.PullCredentials, pulled bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pulled[id]
	for _, c := range p.GetCredentials() {
		if c.GetRepository() == Repository(imageName) {
			record = proto.CloneOf(c)
		}
	}
	pulled = p != nil
	for pull, other := range d.pending {
		pulled = pulled || other == imageName && pull != intent
	}
	return record, pulled
}

// hasSecret reports whether a pod has one of the recorded Secrets, whatever it holds by now, or another one with one of
// the recorded credentials.
func (d *Driver) hasSecret(
	ctx context.Context, by puller, imageName string, record *journaletv1.PullCredentials,
) bool {
	if len(record.GetSecrets()) == 0 {
		return false
	}
	repository, err := registryName(imageName)
	if err != nil {
		return false
	}
	ring, _ := d.secrets(ctx, by.owner, by.secrets)
	return slices.ContainsFunc(ring.lookup(repository), func(c Candidate) bool {
		return slices.ContainsFunc(record.GetSecrets(), func(s *journaletv1.PullSecret) bool {
			return image.SameSecret(s, c.secret) || s.GetDigest() != "" && s.GetDigest() == c.secret.GetDigest()
		})
	})
}

// hasAccount reports whether a plugin uses the token of the pod's service account for the image, and the image was
// pulled with such a token of that account.
func (d *Driver) hasAccount(by puller, imageName string, record *journaletv1.PullCredentials) bool {
	if by.account == "" || d.opts.Providers == nil {
		return false
	}
	repository, err := registryName(imageName)
	return err == nil && d.opts.Providers.useAccounts(repository) &&
		slices.Contains(record.GetServiceAccounts(), accountID(by.owner.Namespace, by.account))
}
