package kubelet

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Limits bound sessions (ADR 076). Zero means the default.
type Limits struct {
	// Sessions are at most so many at once, PerPod in one pod and PerNamespace in the pods of one namespace. Logs have as
	// many again.
	Sessions, PerPod, PerNamespace int
	// Rate is how many sessions begin each second in one namespace, after Burst.
	Rate  float64
	Burst int
	// Idle is how long a session may send and receive nothing.
	Idle time.Duration
	// Hangup is the interval of the check whether a client has left without its bytes being read.
	Hangup time.Duration
}

const (
	defaultSessions = 512
	// A hundred commands at once in one pod work, and the other pods of its namespace have a few left.
	defaultPerPod       = 120
	defaultPerNamespace = 132
	defaultRate         = 50
	defaultBurst        = 256
	defaultIdle         = 4 * time.Hour // kubelet: streamingConnectionIdleTimeout
	defaultHangup       = time.Second
	// maxRates is how many namespaces have a rate noted before those that have not begun a session for long are dropped.
	maxRates = 1024
)

func (l *Limits) fill() {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&l.Sessions, defaultSessions)
	set(&l.PerPod, defaultPerPod)
	set(&l.PerNamespace, defaultPerNamespace)
	set(&l.Burst, defaultBurst)
	if l.Rate == 0 {
		l.Rate = defaultRate
	}
	if l.Idle == 0 {
		l.Idle = defaultIdle
	}
	if l.Hangup == 0 {
		l.Hangup = defaultHangup
	}
}

// share is what a session counts against. Nearly all clients come through the API server, and are one client here; what
// they have of their own is the pod.
type share struct {
	logs           bool
	namespace, pod string
}

func shareOf(p *corev1.Pod, kind journaletv1.SessionKind) share {
	return share{kind == journaletv1.SessionKind_SESSION_KIND_LOGS, p.Namespace, string(p.UID)}
}

// limiter counts sessions.
type limiter struct {
	*Limits
	mu sync.Mutex
	// used counts by share: of a pod; of a namespace, without the pod; of all, without both.
	used map[share]int
	// rates are by namespace, without the pod.
	rates map[share]*rate.Limiter
}

func newLimiter(l *Limits) *limiter {
	return &limiter{Limits: l, used: map[share]int{}, rates: map[share]*rate.Limiter{}}
}

// take returns why no session of a share may begin, "" if it may.
func (l *limiter) take(s share) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, namespace := share{logs: s.logs}, share{logs: s.logs, namespace: s.namespace}
	switch {
	case l.used[s] >= l.PerPod:
		return "too many sessions at once in this pod"
	case l.used[namespace] >= l.PerNamespace:
		return "too many sessions at once in the pods of this namespace on this node"
	case l.used[all] >= l.Sessions:
		return "too many sessions at once on this node"
	case !l.rate(namespace).Allow():
		return "too many sessions a second in the pods of this namespace on this node"
	}
	for _, of := range []share{s, namespace, all} {
		l.used[of]++
	}
	return ""
}

// rate returns the rate of a namespace. l.mu is held.
func (l *limiter) rate(namespace share) *rate.Limiter {
	r, ok := l.rates[namespace]
	if !ok {
		if len(l.rates) >= maxRates {
			maps.DeleteFunc(l.rates, func(_ share, r *rate.Limiter) bool { return r.Tokens() >= float64(l.Burst) })
		}
		r = rate.NewLimiter(rate.Limit(l.Rate), l.Burst)
		l.rates[namespace] = r
	}
	return r
}

func (l *limiter) release(s share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range []share{s, {logs: s.logs, namespace: s.namespace}, {logs: s.logs}} {
		if l.used[of]--; l.used[of] == 0 {
			delete(l.used, of)
		}
	}
}
