package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

var _ Getter = (*Store)(nil)

// ConfigMap implements Getter.
func (s *Store) ConfigMap(ctx context.Context, owner Owner, name string) (*corev1.ConfigMap, error) {
	o, err := s.get(ctx, owner, "", &journaletv1.ObjectRef{Kind: configMap, Name: name})
	return o.ConfigMap, err
}

// Secret implements Getter.
func (s *Store) Secret(ctx context.Context, owner Owner, name string) (*corev1.Secret, error) {
	o, err := s.get(ctx, owner, "", &journaletv1.ObjectRef{Kind: secret, Name: name})
	return o.Secret, err
}

// Token implements Getter.
func (s *Store) Token(
	ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection,
) (string, error) {
	owner, ref := OwnerOf(pod), references.Token(pod, source)
	o, err := s.get(ctx, owner, pod.Name, ref)
	if err != nil && o.Away && s.hadBefore(owner.UID, ref) {
		err = ErrAway
	}
	return string(o.Data), err
}

// keyOf returns what a reference of an owner leads to. A pod that the store does not know is of the API server, if
// there is one: it must not get what files of the node hold. s.mu is held.
func (s *Store) keyOf(owner Owner, name string, ref *journaletv1.ObjectRef) Key {
	if p := s.pods[owner.UID]; p != nil {
		return p.keyNow(ref, p.keyOf(ref))
	}
	p := &pod{uid: owner.UID, name: name, namespace: owner.Namespace, api: owner.API && s.opts.API != nil}
	return p.keyOf(ref)
}

// hadBefore reports whether the pod was once given an object, as the journal has it.
func (s *Store) hadBefore(uid string, ref *journaletv1.ObjectRef) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	return p != nil && p.before(ref).GetDigest() != ""
}

// TrustBundle implements Getter.
func (s *Store) TrustBundle(
	ctx context.Context, owner Owner, source *corev1.ClusterTrustBundleProjection,
) ([]byte, error) {
	o, err := s.get(ctx, owner, "", references.TrustBundle(source))
	return o.Data, err
}

// Certificate implements Getter.
func (s *Store) Certificate(ctx context.Context, pod *corev1.Pod, volume string, source int) (*Certificate, error) {
	selector := references.CertificateSource(pod, volume, source)
	if selector == nil {
		return nil, fmt.Errorf("source %d of volume %q is no podCertificate", source, volume)
	}
	o, err := s.get(ctx, OwnerOf(pod), pod.Name, references.Certificate(volume, source, selector))
	return o.Certificate, err
}

// get returns an object with contents, or an error. It waits for the first read. If a pod was given an immutable object
// and the node has no copy of it any more, get returns the object that has its name now.
func (s *Store) get(ctx context.Context, owner Owner, podName string, ref *journaletv1.ObjectRef) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s.mu.Lock()
	k := s.keyOf(owner, podName, ref)
	e := s.acquire(k, false)
	s.mu.Unlock()
	o, err := s.await(ctx, k, e)
	if o.Away && owner.UID == "" {
		if had, ok := s.anyOf(k); ok {
			return had, nil
		}
	}
	if err == nil || k.UID == "" {
		return o, err
	}
	s.mu.Lock()
	e = s.acquire(k.named(), false)
	s.mu.Unlock()
	return s.await(ctx, k.named(), e)
}

// await returns the contents of an object that was acquired, and releases it.
func (s *Store) await(ctx context.Context, k Key, e *entry) (Object, error) {
	defer func() {
		s.mu.Lock()
		s.release(k)
		s.mu.Unlock()
	}()
	select {
	case <-e.first:
	case <-ctx.Done():
		return Object{}, fmt.Errorf("%s: not read within %s; see the log of the agent", name(k), readTimeout)
	}
	s.mu.Lock()
	o := e.object
	s.mu.Unlock()
	switch {
	case o.hasContents():
		return o, nil
	case o.State == missing:
		return o, &notFound{cmp.Or(o.Message, k.Missing())}
	}
	return o, fmt.Errorf("%s: %w", name(k), errors.New(o.Message))
}

// name names an object in messages: configmap default/web.
func name(k Key) string {
	what := map[journaletv1.ObjectKind]string{
		configMap: "configmap", secret: "secret", token: "token of service account", trustBundle: "clustertrustbundle",
		certificate: "certificate of pod",
	}[k.Kind]
	text := cmp.Or(k.Name, k.Selector)
	if k.Kind == certificate {
		text = k.Pod.Name + ", volume " + k.Name
	}
	if k.Namespace != "" {
		text = k.Namespace + "/" + text
	}
	return what + " " + text
}

// secretValues returns the contents that errors must not repeat; of ConfigMaps and trust bundles none.
func secretValues(k Key, o *Object) (values []string) {
	switch k.Kind {
	case secret:
		for _, key := range slices.Sorted(maps.Keys(o.Secret.Data)) {
			values = append(values, string(o.Secret.Data[key]))
		}
	case token:
		values = append(values, string(o.Data))
	case certificate:
		values = append(values, string(o.Certificate.Key))
	}
	return values
}

// Secrets returns the contents of the Secrets and tokens that a pod refers to or referred to, also of before their last
// change. It waits at most a second for objects that have not been read in this run; ok is false if they still were
// not.
func (s *Store) Secrets(uid string) (values []string, ok bool) {
	deadline := time.NewTimer(readTimeout)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		p := s.pods[uid]
		if p == nil {
			s.mu.Unlock()
			return nil, true
		}
		unread, away := s.unread(p)
		if away {
			s.mu.Unlock()
			return nil, false
		}
		if unread == nil {
			values = append(s.secretsOf(p), p.secrets...)
			s.mu.Unlock()
			return values, true
		}
		s.mu.Unlock()
		select {
		case <-unread:
		case <-deadline.C:
			return nil, false
		}
	}
}

// unread returns the channel of a Secret or token of a pod that has not been read. away reports that the API server has
// a Secret and does not answer, or that it is gone and the pod has it. A token is only in a file of the pod, and holds
// up no text. s.mu is held.
func (s *Store) unread(p *pod) (unread <-chan struct{}, away bool) {
	for _, k := range p.keys {
		switch e := s.entries[k]; {
		case k.Kind != secret && k.Kind != token:
		case k.UID != "" && e.read && !e.object.hasContents():
			return nil, true // the pod has contents that are unknown here
		case e.known():
		case !e.read:
			return e.first, false
		case k.Kind == secret:
			return nil, true
		}
	}
	return nil, false
}

// secretsOf returns the contents of the Secrets that a pod refers to; s.mu is held.
func (s *Store) secretsOf(p *pod) (values []string) {
	for _, k := range p.keys {
		e := s.entries[k]
		values = append(append(values, e.secrets[0]...), e.secrets[1]...)
	}
	return values
}
