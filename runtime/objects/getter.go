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
func (s *Store) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	o, err := s.get(ctx, Key{Kind: configMap, Namespace: namespace, Name: name})
	return o.ConfigMap, err
}

// Secret implements Getter.
func (s *Store) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	o, err := s.get(ctx, Key{Kind: secret, Namespace: namespace, Name: name})
	return o.Secret, err
}

// Token implements Getter.
func (s *Store) Token(
	ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection,
) (string, error) {
	o, err := s.get(ctx, keyOf(pod.Namespace, references.Token(pod, source)))
	return string(o.Data), err
}

// TrustBundle implements Getter.
func (s *Store) TrustBundle(ctx context.Context, source *corev1.ClusterTrustBundleProjection) ([]byte, error) {
	o, err := s.get(ctx, keyOf("", references.TrustBundle(source)))
	return o.Data, err
}

// get returns an object with contents, or an error. It waits for the first read.
func (s *Store) get(ctx context.Context, k Key) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s.mu.Lock()
	e := s.acquire(k)
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
		unread := s.unread(p)
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

// unread returns the channel of a Secret or token of a pod that has not been read; s.mu is held.
func (s *Store) unread(p *pod) <-chan struct{} {
	for _, r := range p.refs {
		k := keyOf(p.namespace, r)
		if e := s.entries[k]; (k.Kind == secret || k.Kind == token) && !e.known() {
			return e.first
		}
	}
	return nil
}

// secretsOf returns the contents of the Secrets that a pod refers to; s.mu is held.
func (s *Store) secretsOf(p *pod) (values []string) {
	for _, r := range p.refs {
		e := s.entries[keyOf(p.namespace, r)]
		values = append(append(values, e.secrets[0]...), e.secrets[1]...)
	}
	return values
}
