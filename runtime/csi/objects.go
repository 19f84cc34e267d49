package csi

import (
	"context"
	"errors"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/journalet/journalet/runtime/cluster/client"
)

// requestTimeout bounds one request to the API server.
const requestTimeout = 10 * time.Second

// defaultAccount is the service account of a pod that names none. Kubernetes default.
const defaultAccount = "default"

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
	in, out := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: r.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		},
	}}, &authenticationv1.TokenRequest{}
	if r.Audience != "" {
		in.Spec.Audiences = []string{r.Audience}
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = defaultAccount
	}
	err := client.CreateSubresource(ctx, a.client, client.ServiceAccounts, pod.Namespace, account, "token", in, out)
	if err == nil && out.Status.Token == "" {
		err = errors.New("the API server answered without a token")
	}
	return out.Status, err
}
