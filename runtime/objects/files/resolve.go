package files

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
)

const (
	present    = journaletv1.ObjectState_OBJECT_STATE_PRESENT
	missing    = journaletv1.ObjectState_OBJECT_STATE_MISSING
	unreadable = journaletv1.ObjectState_OBJECT_STATE_UNREADABLE
)

// object returns an object of the index; file is the file that pods have it from, empty if none has it.
func (s *session) object(k objects.Key, file string) objects.Object {
	switch k.Kind {
	case journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP:
		return s.stored(k, "ConfigMap", file)
	case journaletv1.ObjectKind_OBJECT_KIND_SECRET:
		return s.stored(k, "Secret", file)
	case journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN:
		return s.token(k, file)
	case journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE:
		if k.Name != "" {
			return s.bundle(k, file)
		}
		return s.bundles(k, file)
	}
	return objects.Object{State: missing}
}

// one returns which of the objects of a name counts: the object in the file that pods have it from, and otherwise the
// first by path; but an object that was never read hides none that was.
func (s *session) one(key id, file string) (found object, has bool) {
	file = cmp.Or(s.inUse[key], file)
	for _, o := range s.index[key] {
		if o.path == file {
			return o, true
		}
		if !has || found.Value == nil && o.Value != nil {
			found, has = o, true
		}
	}
	for _, f := range s.faults {
		if file == f.path || strings.HasPrefix(file, f.path+"/") {
			// Whether the file still has the object is unknown.
			return object{path: file, problem: f.text}, true
		}
	}
	return found, has
}

// use returns which of the objects of a name counts. From now on its file keeps the name.
func (s *session) use(key id, file string) (object, bool) {
	o, has := s.one(key, file)
	if has {
		s.used[key] = o.path
	}
	return o, has
}

// reportIgnored logs each object that does not count, once.
func (s *session) reportIgnored() {
	if !s.loaded {
		return
	}
	s.loaded = false
	twice := sets.New[string]()
	for _, i := range s.ignored() {
		text := i.key.String() + " in " + i.path
		if twice.Insert(text); !s.twice.Has(text) {
			s.log.Warn("duplicate object: the object in another file counts", "object", i.key.String(), "ignored in", i.path,
				"counts in", i.counts)
		}
	}
	s.twice = twice
}

// duplicate is an object that does not count, in the file path; the object in the file counts does.
type duplicate struct {
	key          id
	path, counts string
}

// ignored returns the objects that do not count, sorted, up to maxWarned.
func (s *session) ignored() (all []duplicate) {
	for key, found := range s.index {
		if len(found) < 2 {
			continue
		}
		counts, _ := s.one(key, s.used[key])
		for _, o := range found {
			if o.path != counts.path {
				all = append(all, duplicate{key, o.path, counts.path})
			}
		}
	}
	slices.SortFunc(all, func(a, b duplicate) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.key.String(), b.key.String()))
	})
	return all[:min(len(all), maxWarned)]
}

// stored returns a ConfigMap or a Secret.
func (s *session) stored(k objects.Key, kind, file string) objects.Object {
	o, has := s.use(id{kind, k.Namespace, k.Name}, file)
	if !has {
		return s.absent(k.Missing())
	}
	out := objects.Object{State: present, File: o.path}
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
		message += "; " + s.faults[0].text
	}
	return objects.Object{State: missing, Message: message}
}

// token returns the token of a service account: of its file, or of a Secret of the type that has one.
func (s *session) token(k objects.Key, file string) objects.Object {
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
		o, _ := s.one(key, file)
		v, ok := o.Value.(*corev1.Secret)
		if !ok || key.namespace != k.Namespace || v.Type != corev1.SecretTypeServiceAccountToken ||
			v.Annotations[corev1.ServiceAccountNameKey] != k.Name {
			continue
		}
		data := v.Data[corev1.ServiceAccountTokenKey]
		if len(data) == 0 {
			continue
		}
		s.used[key] = o.path
		if o.problem != "" {
			return objects.Object{State: unreadable, Message: o.problem, Data: data, File: o.path}
		}
		return objects.Object{State: present, Data: data, File: o.path}
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
func (s *session) bundle(k objects.Key, file string) objects.Object {
	o, has := s.use(id{"ClusterTrustBundle", "", k.Name}, file)
	if !has {
		return s.absent(k.Missing())
	}
	return trust([]object{o})
}

// bundles returns the trust bundles that a selector matches. As in the kubelet, no label selector matches nothing, and
// an empty one everything.
func (s *session) bundles(k objects.Key, file string) objects.Object {
	signer, matches, err := objects.TrustSelector(k)
	if err != nil {
		return objects.Object{State: unreadable, Message: err.Error()}
	}
	var found []object
	for _, key := range s.keys("ClusterTrustBundle") {
		o, _ := s.one(key, file)
		b, ok := o.Value.(*certificatesv1.ClusterTrustBundle)
		if ok && b.Spec.SignerName == signer && matches.Matches(labels.Set(b.Labels)) {
			s.used[key] = o.path
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
	out := objects.Object{State: present, File: all[0].path}
	var certificates objects.Certificates
	for _, o := range all {
		if o.path != out.File {
			out.File = ""
		}
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
