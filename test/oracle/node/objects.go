package node

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/objects"
)

// Objects are what the pod of a case refers to, the same for both sides. They are in every namespace.
type Objects struct {
	// ConfigMaps, Binary and Secrets are data by name; Binary is the binaryData of a ConfigMap.
	ConfigMaps map[string]map[string]string `json:"configMaps,omitempty"`
	Binary     map[string]map[string][]byte `json:"binary,omitempty"`
	Secrets    map[string]map[string][]byte `json:"secrets,omitempty"`
	// Files are in each emptyDir volume, by path. A text that begins with LinkTo is a link.
	Files map[string]string `json:"files,omitempty"`
}

// LinkTo begins the text of a file that is a link; its target follows.
const LinkTo = "-> "

var _ objects.Getter = (*Objects)(nil)

// ConfigMap is part of objects.Getter.
func (o *Objects) ConfigMap(_ context.Context, owner objects.Owner, name string) (*v1.ConfigMap, error) {
	data, ok := o.ConfigMaps[name]
	if !ok {
		return nil, fmt.Errorf("configmap %q %w", name, objects.ErrNotFound)
	}
	out := &v1.ConfigMap{Data: data, BinaryData: o.Binary[name]}
	out.Namespace, out.Name = owner.Namespace, name
	return out, nil
}

// Secret is part of objects.Getter.
func (o *Objects) Secret(_ context.Context, owner objects.Owner, name string) (*v1.Secret, error) {
	data, ok := o.Secrets[name]
	if !ok {
		return nil, fmt.Errorf("secret %q %w", name, objects.ErrNotFound)
	}
	out := &v1.Secret{Data: data}
	out.Namespace, out.Name = owner.Namespace, name
	return out, nil
}

// Token is part of objects.Getter. Its contents are what was requested.
func (o *Objects) Token(_ context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) (string, error) {
	expires := int64(0)
	if source.ExpirationSeconds != nil {
		expires = *source.ExpirationSeconds
	}
	return fmt.Sprintf("token of %s for %s, %d s", pod.Spec.ServiceAccountName, source.Audience, expires), nil
}

// TrustBundle is part of objects.Getter. Bundles whose name or signer contains Missing do not exist.
func (o *Objects) TrustBundle(
	_ context.Context, _ objects.Owner, source *v1.ClusterTrustBundleProjection,
) ([]byte, error) {
	bundle := ""
	if source.Name != nil {
		bundle = *source.Name
	} else if source.SignerName != nil {
		bundle = *source.SignerName
	}
	if strings.Contains(bundle, Missing) {
		return nil, fmt.Errorf("clustertrustbundle %q %w", bundle, objects.ErrNotFound)
	}
	return []byte("certificates of " + bundle), nil
}

// Certificate is part of objects.Getter. Each pod, volume and source has its own.
func (o *Objects) Certificate(_ context.Context, pod *v1.Pod, volume string, source int) (*objects.Certificate, error) {
	suffix := fmt.Sprintf("of %s, %s %d\n", pod.UID, volume, source)
	return &objects.Certificate{Key: []byte("key " + suffix), Chain: []byte("chain " + suffix)}, nil
}

// Missing is in the names of objects that do not exist.
const Missing = "missing"
