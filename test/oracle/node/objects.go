package node

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/objects"
)

// Objects are what the pod of a case refers to, the same for both sides. They are in every namespace.
type Objects struct {
	// ConfigMaps and Secrets are data by name.
	ConfigMaps map[string]map[string]string `json:"configMaps,omitempty"`
	Secrets    map[string]map[string][]byte `json:"secrets,omitempty"`
	// Files are in each emptyDir volume, by path. A text that begins with LinkTo is a link.
	Files map[string]string `json:"files,omitempty"`
}

// LinkTo begins the text of a file that is a link; its target follows.
const LinkTo = "-> "

var _ objects.Getter = (*Objects)(nil)

// ConfigMap is part of objects.Getter.
func (o *Objects) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	data, ok := o.ConfigMaps[name]
	if !ok {
		return nil, fmt.Errorf("configmap %q %w", name, objects.ErrNotFound)
	}
	out := &v1.ConfigMap{Data: data}
	out.Namespace, out.Name = namespace, name
	return out, nil
}

// Secret is part of objects.Getter.
func (o *Objects) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	data, ok := o.Secrets[name]
	if !ok {
		return nil, fmt.Errorf("secret %q %w", name, objects.ErrNotFound)
	}
	out := &v1.Secret{Data: data}
	out.Namespace, out.Name = namespace, name
	return out, nil
}

// Token is part of objects.Getter. There are no tokens.
func (o *Objects) Token(_ context.Context, _ *v1.Pod, _ *v1.ServiceAccountTokenProjection) (string, error) {
	return "", objects.ErrNotFound
}

// TrustBundle is part of objects.Getter. There are no trust bundles.
func (o *Objects) TrustBundle(context.Context, *v1.ClusterTrustBundleProjection) ([]byte, error) {
	return nil, objects.ErrNotFound
}
