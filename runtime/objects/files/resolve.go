package files

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
)

const (
	present    = journaletv1.ObjectState_OBJECT_STATE_PRESENT
	missing    = journaletv1.ObjectState_OBJECT_STATE_MISSING
	unreadable = journaletv1.ObjectState_OBJECT_STATE_UNREADABLE
)

// object returns an object of the index.
func (s *session) object(k objects.Key) objects.Object {
	switch k.Kind {
	case journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP:
		return s.stored(k, "ConfigMap")
	case journaletv1.ObjectKind_OBJECT_KIND_SECRET:
		return s.stored(k, "Secret")
	case journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN:
		return s.token(k)
	case journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE:
		if k.Name != "" {
			return s.bundle(k)
		}
		return s.bundles(k)
	}
	return objects.Object{State: missing}
}

// stored returns a ConfigMap or a Secret.
func (s *session) stored(k objects.Key, kind string) objects.Object {
	o, has := s.index[id{kind, k.Namespace, k.Name}]
	if !has {
		return s.absent(k.Missing())
	}
	out := objects.Object{State: present}
	if o.problem != "" {
		out.State, out.Message = unreadable, o.problem
	}
	switch v := o.Value.(type) {
	case *corev1.ConfigMap:
		out.ConfigMap, out.Immutable = v, v.Immutable != nil && *v.Immutable
	case *corev1.Secret:
		out.Secret, out.Immutable = v, v.Immutable != nil && *v.Immutable
	}
	return out
}

// absent returns an object that no file has. If a path cannot be read, nothing is known of it; if a file cannot be
// decoded, the message names it, because it may be in there.
func (s *session) absent(message string) objects.Object {
	for _, v := range s.views {
		if v.err != nil {
			return objects.Object{State: unreadable, Message: v.err.Error()}
		}
	}
	if len(s.faults) > 0 {
		message += "; " + s.faults[0]
	}
	return objects.Object{State: missing, Message: message}
}

// token returns the token of a service account: of its file, or of a Secret of the type that has one.
func (s *session) token(k objects.Key) objects.Object {
	name := k.Namespace + "/" + k.Name
	if d := s.tokens[name]; d != nil {
		v := d.view.Load()
		for path, c := range v.files {
			if c.fault != "" {
				return objects.Object{State: unreadable, Message: c.fault, Data: c.token}
			}
			if path != "" {
				return objects.Object{State: present, Data: c.token}
			}
		}
		if v.err != nil {
			return objects.Object{State: unreadable, Message: v.err.Error()}
		}
		return objects.Object{State: missing, Message: k.Missing() + ": there is no file " + d.path}
	}
	for _, key := range s.keys("Secret") {
		o := s.index[key]
		v, ok := o.Value.(*corev1.Secret)
		if !ok || key.namespace != k.Namespace || v.Type != corev1.SecretTypeServiceAccountToken ||
			v.Annotations[corev1.ServiceAccountNameKey] != k.Name {
			continue
		}
		data := v.Data[corev1.ServiceAccountTokenKey]
		switch {
		case len(data) > 0 && o.problem != "":
			return objects.Object{State: unreadable, Message: o.problem, Data: data}
		case len(data) > 0:
			return objects.Object{State: present, Data: data}
		}
	}
	return s.absent(fmt.Sprintf("%s: name a file with --service-account-token-file %s=PATH, or write a Secret of type %s",
		k.Missing(), name, corev1.SecretTypeServiceAccountToken))
}

// keys returns the names of a kind's objects, sorted.
func (s *session) keys(kind string) []id {
	var all []id
	for key := range maps.Keys(s.index) {
		if key.kind == kind {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b id) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return all
}

// bundle returns the trust bundle of a name.
func (s *session) bundle(k objects.Key) objects.Object {
	o, has := s.index[id{"ClusterTrustBundle", "", k.Name}]
	if !has {
		return s.absent(k.Missing())
	}
	return trust([]object{o})
}

// bundles returns the trust bundles that a selector matches. As in the kubelet, no label selector matches nothing, and
// an empty one everything.
func (s *session) bundles(k objects.Key) objects.Object {
	signer, matches, err := objects.TrustSelector(k)
	if err != nil {
		return objects.Object{State: unreadable, Message: err.Error()}
	}
	var found []object
	for _, key := range s.keys("ClusterTrustBundle") {
		o := s.index[key]
		b, ok := o.Value.(*certificatesv1.ClusterTrustBundle)
		if ok && b.Spec.SignerName == signer && matches.Matches(labels.Set(b.Labels)) {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		return s.absent(k.Missing())
	}
	return trust(found)
}

// trust returns the certificates of bundles.
func trust(all []object) objects.Object {
	out := objects.Object{State: present}
	var certificates objects.Certificates
	for _, o := range all {
		if o.problem != "" {
			out.State, out.Message = unreadable, o.problem
		}
		if b, ok := o.Value.(*certificatesv1.ClusterTrustBundle); ok {
			certificates.Add(b.Spec.TrustBundle)
		}
	}
	out.Data = certificates.PEM()
	return out
}
