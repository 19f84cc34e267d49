package objects

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// ErrNotFound means that there is no such object. Errors that wrap it have the kubelet's words: configmap "x" not
// found.
var ErrNotFound = errors.New("not found")

// ErrAway means that the API server does not answer, and that the pod was given the object before: it does without
// until the API server is back (ADR 057). Only Token returns it.
var ErrAway = errors.New("the API server does not answer")

// Getter returns objects to the drivers that put them into containers. What it returns is shared: do not change it. An
// error never holds contents. Its methods may be called concurrently, and return within a second.
type Getter interface {
	// ConfigMap returns a ConfigMap; ErrNotFound if it does not exist.
	ConfigMap(ctx context.Context, owner Owner, name string) (*corev1.ConfigMap, error)
	// Secret returns a Secret with its data as bytes; ErrNotFound if it does not exist.
	Secret(ctx context.Context, owner Owner, name string) (*corev1.Secret, error)
	// Token returns the service account token of a projected source; ErrNotFound if the node has none for it.
	Token(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (string, error)
	// TrustBundle returns the certificates of a projected source as PEM, each once, sorted. ErrNotFound if nothing
	// matches.
	TrustBundle(ctx context.Context, owner Owner, source *corev1.ClusterTrustBundleProjection) ([]byte, error)
	// Certificate returns the key and the certificates of the projected source at an index in a volume. An error says
	// why there are no certificates, in the kubelet's words: not issued yet, denied, failed.
	Certificate(ctx context.Context, pod *corev1.Pod, volume string, source int) (*Certificate, error)
}

// Certificate is a key and the certificates that were issued for it.
type Certificate struct {
	// Key is one block of PEM: PKCS #8. It is in no record, event, log or error.
	Key []byte
	// Chain are blocks of PEM without headers, the one for the key first.
	Chain []byte
}
