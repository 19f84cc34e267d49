package persistentvolume

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/runtime/cluster/client"
)

// requestTimeout bounds one request to the API server.
const requestTimeout = 10 * time.Second

// FromAPI returns what reads objects of an API server, one request each.
func FromAPI(c *client.Client) Objects { return apiObjects{c} }

type apiObjects struct{ client *client.Client }

// get reads one object.
func get[T any](ctx context.Context, a apiObjects, r client.Resource[T], namespace, name string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return client.Get(ctx, a.client, r, namespace, name)
}

// Claim implements Objects, as do the methods below.
func (a apiObjects) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return get(ctx, a, client.PersistentVolumeClaims, namespace, name)
}

// PatchClaim patches the status of a claim.
func (a apiObjects) PatchClaim(
	ctx context.Context, namespace, name string, patch []byte,
) (*corev1.PersistentVolumeClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return client.Patch(ctx, a.client, client.PersistentVolumeClaims, namespace, name, types.StrategicMergePatchType,
		patch, "status")
}

// Volume reads a PersistentVolume.
func (a apiObjects) Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	return get(ctx, a, client.PersistentVolumes, "", name)
}

// Driver reads a CSIDriver.
func (a apiObjects) Driver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	return get(ctx, a, client.CSIDrivers, "", name)
}

// Attachment reads a VolumeAttachment.
func (a apiObjects) Attachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	return get(ctx, a, client.VolumeAttachments, "", name)
}

// Secret reads a Secret.
func (a apiObjects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return get(ctx, a, client.Secrets, namespace, name)
}

// Token requests a token.
func (a apiObjects) Token(
	ctx context.Context, pod *corev1.Pod, r storagev1.TokenRequest,
) (authenticationv1.TokenRequestStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out, err := client.RequestToken(ctx, a.client, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID,
		references.ServiceAccount(pod), r.Audience, r.ExpirationSeconds)
	return out.Status, err
}
