package references

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The kinds of objects, short.
const (
	configMap   = journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP
	secret      = journaletv1.ObjectKind_OBJECT_KIND_SECRET
	token       = journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN
	trustBundle = journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE
	certificate = journaletv1.ObjectKind_OBJECT_KIND_POD_CERTIFICATE
)

// defaultServiceAccount is the service account of a pod that names none. Kubernetes default.
const defaultServiceAccount = "default"

// defaultTokenSeconds is how long a projected token is valid if its source does not say it. Kubernetes default: 3600 s.
const defaultTokenSeconds = 3600

// Use is one reference to an object.
type Use struct {
	Ref *journaletv1.ObjectRef
	// Optional reports whether the pod does without an object that is missing.
	Optional bool
}

// References returns the objects that a pod refers to, each once, sorted by kind, name and selector; none for nil.
func References(p *corev1.Pod) []*journaletv1.ObjectRef {
	if p == nil {
		return nil
	}
	var all []*journaletv1.ObjectRef
	add := func(uses []Use) {
		for _, u := range uses {
			all = append(all, u.Ref)
		}
	}
	for i := range p.Spec.Volumes {
		add(OfVolume(p, &p.Spec.Volumes[i]))
	}
	for _, name := range PullSecrets(p) {
		add([]Use{{Ref: Secret(name), Optional: true}})
	}
	for c := range containers.All(p) {
		add(OfContainer(c))
	}
	slices.SortFunc(all, Compare)
	return slices.CompactFunc(all, Equal)
}

// PullSecrets returns the names of the Secrets with credentials of registries that a pod refers to, in the order of the
// manifest, each once. No pod waits for one: the image may be public, or another Secret may do. As by the kubelet, an
// entry without a name counts as none.
func PullSecrets(p *corev1.Pod) []string {
	var names []string
	for _, r := range p.Spec.ImagePullSecrets {
		if r.Name != "" && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Secret returns the reference to a Secret of the pod's namespace.
func Secret(name string) *journaletv1.ObjectRef {
	return &journaletv1.ObjectRef{Kind: secret, Name: name}
}

// Compare orders references by kind, name and selector.
func Compare(a, b *journaletv1.ObjectRef) int {
	return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()),
		cmp.Compare(a.GetSelector(), b.GetSelector()))
}

// Equal reports whether two references name the same object.
func Equal(a, b *journaletv1.ObjectRef) bool { return Compare(a, b) == 0 }

// OfVolume returns what a volume of a pod refers to, in the order of the manifest.
func OfVolume(p *corev1.Pod, v *corev1.Volume) []Use {
	switch {
	case v.ConfigMap != nil:
		return []Use{use(configMap, v.ConfigMap.Name, v.ConfigMap.Optional)}
	case v.Secret != nil:
		return []Use{use(secret, v.Secret.SecretName, v.Secret.Optional)}
	case v.Projected == nil:
		return nil
	}
	var all []Use
	for i := range v.Projected.Sources {
		switch s := &v.Projected.Sources[i]; {
		case s.ConfigMap != nil:
			all = append(all, use(configMap, s.ConfigMap.Name, s.ConfigMap.Optional))
		case s.Secret != nil:
			all = append(all, use(secret, s.Secret.Name, s.Secret.Optional))
		case s.ServiceAccountToken != nil:
			all = append(all, Use{Ref: Token(p, s.ServiceAccountToken)})
		case s.ClusterTrustBundle != nil:
			optional := s.ClusterTrustBundle.Optional
			all = append(all, Use{Ref: TrustBundle(s.ClusterTrustBundle), Optional: optional != nil && *optional})
		case s.PodCertificate != nil:
			all = append(all, Use{Ref: Certificate(v.Name, i, s.PodCertificate)})
		}
	}
	return all
}

// IsSetUpApart reports whether a volume is set up beside the others of its pod, in a call of its own: it needs a CSI
// driver, a claim or an NFS server, which may take minutes and hold up nothing else.
func IsSetUpApart(v *corev1.Volume) bool { return IsCSI(v) || v.NFS != nil }

// IsCSI reports whether a CSI driver sets up a volume, as far as its manifest shows: it is inline, or a claim.
func IsCSI(v *corev1.Volume) bool {
	return v.CSI != nil || v.PersistentVolumeClaim != nil || v.Ephemeral != nil || IsMigrated(v)
}

// IsMigrated reports whether a volume is of a cloud, inline, whose kind a CSI driver has taken over (ADR 101). kubelet:
// pkg/volume/csimigration.
func IsMigrated(v *corev1.Volume) bool {
	return v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.AzureFile != nil ||
		v.Cinder != nil || v.VsphereVolume != nil || v.PortworxVolume != nil
}

// OfContainer returns what the environment of a container refers to, in the order of the manifest: envFrom comes first.
func OfContainer(c *corev1.Container) []Use {
	var all []Use
	for i := range c.EnvFrom {
		switch s := &c.EnvFrom[i]; {
		case s.ConfigMapRef != nil:
			all = append(all, use(configMap, s.ConfigMapRef.Name, s.ConfigMapRef.Optional))
		case s.SecretRef != nil:
			all = append(all, use(secret, s.SecretRef.Name, s.SecretRef.Optional))
		}
	}
	for i := range c.Env {
		switch s := c.Env[i].ValueFrom; {
		case s == nil:
		case s.ConfigMapKeyRef != nil:
			all = append(all, use(configMap, s.ConfigMapKeyRef.Name, s.ConfigMapKeyRef.Optional))
		case s.SecretKeyRef != nil:
			all = append(all, use(secret, s.SecretKeyRef.Name, s.SecretKeyRef.Optional))
		}
	}
	return all
}

func use(kind journaletv1.ObjectKind, name string, optional *bool) Use {
	return Use{Ref: &journaletv1.ObjectRef{Kind: kind, Name: name}, Optional: optional != nil && *optional}
}

// TokenSelector is the selector of a token, as JSON.
type TokenSelector struct {
	Audience          string `json:"audience,omitempty"`
	ExpirationSeconds int64  `json:"expirationSeconds"`
}

// Token returns the reference of a pod to a projected service account token.
func Token(p *corev1.Pod, s *corev1.ServiceAccountTokenProjection) *journaletv1.ObjectRef {
	t := TokenSelector{Audience: s.Audience, ExpirationSeconds: defaultTokenSeconds}
	if s.ExpirationSeconds != nil {
		t.ExpirationSeconds = *s.ExpirationSeconds
	}
	return &journaletv1.ObjectRef{Kind: token, Name: ServiceAccount(p), Selector: selector(t)}
}

// ServiceAccount returns the name of a pod's service account.
func ServiceAccount(p *corev1.Pod) string {
	return cmp.Or(p.Spec.ServiceAccountName, defaultServiceAccount)
}

// TrustBundle returns the reference to the trust bundles of a projected source: a name, or a selector, which is the
// source as JSON with its signer and label selector only.
func TrustBundle(s *corev1.ClusterTrustBundleProjection) *journaletv1.ObjectRef {
	if s.Name != nil {
		return &journaletv1.ObjectRef{Kind: trustBundle, Name: *s.Name}
	}
	return &journaletv1.ObjectRef{Kind: trustBundle, Selector: selector(corev1.ClusterTrustBundleProjection{
		SignerName: s.SignerName, LabelSelector: s.LabelSelector,
	})}
}

// CertificateSelector is the selector of a certificate, as JSON.
type CertificateSelector struct {
	// Source is the index of the source in its volume.
	Source     int    `json:"source"`
	SignerName string `json:"signerName"`
	KeyType    string `json:"keyType"`
}

// Certificate returns the reference to the certificate of a projected source of a volume. The annotations for the
// signer are no part of it: they may be large, or secret.
func Certificate(volume string, source int, s *corev1.PodCertificateProjection) *journaletv1.ObjectRef {
	return &journaletv1.ObjectRef{Kind: certificate, Name: volume, Selector: selector(CertificateSelector{
		Source: source, SignerName: s.SignerName, KeyType: s.KeyType,
	})}
}

// CertificateSource returns the source of a certificate by its volume and its index in the volume; nil if the volume
// has no such source.
func CertificateSource(p *corev1.Pod, volume string, source int) *corev1.PodCertificateProjection {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Name == volume && v.Projected != nil && source >= 0 && source < len(v.Projected.Sources) {
			return v.Projected.Sources[source].PodCertificate
		}
	}
	return nil
}

// selector returns a value as JSON. Its fields are strings and numbers, which always marshal.
func selector(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("references: a selector did not marshal: %v", err))
	}
	return string(b)
}

// Same reports whether two lists of references are equal.
func Same(a, b []*journaletv1.ObjectRef) bool {
	return slices.EqualFunc(a, b, func(x, y *journaletv1.ObjectRef) bool { return proto.Equal(x, y) })
}
