package persistentvolume

import (
	"context"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

const (
	// tokenShare is the part of a token's lifetime during which drivers get it. kubelet: 80 %, and at most a day.
	tokenShare  = 0.8
	maxTokenAge = 24 * time.Hour
	// defaultLifetime is the lifetime of a token if the request has none. authentication.k8s.io/v1: TokenRequestSpec.
	defaultLifetime = time.Hour
)

// tokens are the tokens of pods whose volumes are published again and again: each token is used for most of its
// lifetime, instead of one for each publication. They are in memory only, and are dropped with their pod.
type tokens struct {
	mu    sync.Mutex
	byPod map[string]map[tokenKind]token // by the UID of the pod
}

// tokenKind is what distinguishes the tokens of a pod.
type tokenKind struct {
	audience string
	seconds  int64
}

type token struct {
	status authenticationv1.TokenRequestStatus
	// until is when it is used no more.
	until time.Time
}

// token returns a token of a pod for a driver.
func (s *setUp) token(ctx context.Context, r storagev1.TokenRequest) (authenticationv1.TokenRequestStatus, error) {
	kind, uid := tokenKind{r.Audience, ptr.Deref(r.ExpirationSeconds, 0)}, string(s.pod.UID)
	if !s.src.republished() {
		return s.opts.Objects.Token(ctx, s.pod, r)
	}
	now := s.opts.Clock.Now()
	s.tokens.mu.Lock()
	kept := s.tokens.byPod[uid][kind]
	s.tokens.mu.Unlock()
	if now.Before(kept.until) {
		return kept.status, nil
	}
	status, err := s.opts.Objects.Token(ctx, s.pod, r)
	if err != nil {
		return status, err
	}
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	if s.tokens.byPod[uid] == nil {
		s.tokens.byPod[uid] = map[tokenKind]token{}
	}
	s.tokens.byPod[uid][kind] = token{status, now.Add(usedFor(now, status, r))}
	return status, nil
}

// usedFor returns for how long a token is used. The clock of the API server may be another one: it never is longer than
// what was requested allows.
func usedFor(now time.Time, status authenticationv1.TokenRequestStatus, r storagev1.TokenRequest) time.Duration {
	lifetime := defaultLifetime
	if s := ptr.Deref(r.ExpirationSeconds, 0); s > 0 {
		lifetime = time.Duration(s) * time.Second
	}
	lifetime = min(lifetime, status.ExpirationTimestamp.Sub(now))
	return min(time.Duration(tokenShare*float64(lifetime)), maxTokenAge)
}

// forget drops the tokens of a pod that has ended.
func (t *tokens) forget(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byPod, uid)
}
