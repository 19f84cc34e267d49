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
func (s *Store) ConfigMap(ctx context.Context, of Owner, name string) (*corev1.ConfigMap, error) {
	o, err := s.get(ctx, s.ownerOf(of, "").keyOf(&journaletv1.ObjectRef{Kind: configMap, Name: name}))
	return o.ConfigMap, err
}

// Secret implements Getter.
func (s *Store) Secret(ctx context.Context, of Owner, name string) (*corev1.Secret, error) {
	o, err := s.get(ctx, s.ownerOf(of, "").keyOf(&journaletv1.ObjectRef{Kind: secret, Name: name}))
	return o.Secret, err
}

// Token implements Getter.
func (s *Store) Token(
	ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection,
) (string, error) {
	of, ref := s.ownerOf(OwnerOf(pod), pod.Name), references.Token(pod, source)
	o, err := s.get(ctx, of.keyOf(ref))
	if err != nil && o.Away && s.hadBefore(of.uid, ref) {
		err = ErrAway
	}
	return string(o.Data), err
}

// ownerOf returns the pod that is an owner. One that the store does not know is of the API server, if there is one: it
// must not get what files of the node hold.
func (s *Store) ownerOf(of Owner, name string) *pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[of.UID]; p != nil {
		return &pod{uid: of.UID, name: p.name, namespace: p.namespace, api: p.api}
	}
	return &pod{uid: of.UID, name: name, namespace: of.Namespace, api: of.API && s.opts.API != nil}
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
	ctx context.Context, of Owner, source *corev1.ClusterTrustBundleProjection,
) ([]byte, error) {
	o, err := s.get(ctx, s.ownerOf(of, "").keyOf(references.TrustBundle(source)))
	return o.Data, err
}

// get returns an object with contents, or an error. It waits for the first read.
func (s *Store) get(ctx context.Context, k Key) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s.mu.Lock()
	e := s.acquire(k, false)
	s.mu.Unlock()
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
	}[k.Kind]
	text := cmp.Or(k.Name, k.Selector)
	if k.Namespace != "" {
		text = k.Namespace + "/" + text
	}
	return what + " " + text
}

// secretValues returns the contents that errors must not repeat; of ConfigMaps and certificates none.
func secretValues(k Key, o *Object) (values []string) {
	switch k.Kind {
	case secret:
		for _, key := range slices.Sorted(maps.Keys(o.Secret.Data)) {
			values = append(values, string(o.Secret.Data[key]))
		}
	case token:
		values = append(values, string(o.Data))
	}
	return values
}

// Secrets returns the contents of the Secrets and tokens that a pod refers to or referred to, also of before their last
// change. It waits at most a second for those that have not been read in this run; ok is false if they still were not.
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
// a Secret and does not answer. A token is only in a file of the pod, and holds up no text. s.mu is held.
func (s *Store) unread(p *pod) (unread <-chan struct{}, away bool) {
	for _, r := range p.refs {
		k := p.keyOf(r)
		switch e := s.entries[k]; {
		case k.Kind != secret && k.Kind != token, e.known():
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
	for _, r := range p.refs {
		e := s.entries[p.keyOf(r)]
		values = append(append(values, e.secrets[0]...), e.secrets[1]...)
	}
	return values
}
