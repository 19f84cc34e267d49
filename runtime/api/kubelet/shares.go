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
	// Sessions are at most so many at once; of them one client has PerClient, PerPod in one pod and PerNamespace in the
	// pods of one namespace. Logs have as many again.
	Sessions, PerClient, PerPod, PerNamespace int
	// Rate is how many sessions of one client begin each second in one namespace, after Burst.
	Rate  float64
	Burst int
	// Idle is how long a session may send and receive nothing.
	Idle time.Duration
	// Hangup is the interval of the check whether a client has left without its bytes being read.
	Hangup time.Duration
}

const (
	defaultSessions = 512
	// Nearly all come through the API server, which is one client. The rest is for who connects by himself.
	defaultPerClient = 384
	// A hundred commands at once in one pod work, and the other pods of its namespace have a few left.
	defaultPerPod       = 120
	defaultPerNamespace = 132
	defaultRate         = 50
	defaultBurst        = 256
	defaultIdle         = 4 * time.Hour // kubelet: streamingConnectionIdleTimeout
	defaultHangup       = time.Second
	// maxRates is how many namespaces have a rate noted before namespaces without a session for long are dropped.
	maxRates = 1024
)

func (l *Limits) fill() {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&l.Sessions, defaultSessions)
	set(&l.PerClient, defaultPerClient)
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

// share is what a session counts against: its client, and the pod within the client's share. All who come through the
// API server are one client here, but have pods of their own.
type share struct {
	logs                   bool
	client, namespace, pod string
}

func shareOf(c Client, p *corev1.Pod, kind journaletv1.SessionKind) share {
	return share{kind == journaletv1.SessionKind_SESSION_KIND_LOGS, c.ID(), p.Namespace, string(p.UID)}
}

// inNamespace and ofClient return the shares that have a share of a pod.
func (s share) inNamespace() share {
	return share{logs: s.logs, client: s.client, namespace: s.namespace}
}

func (s share) ofClient() share { return share{logs: s.logs, client: s.client} }

// limiter counts sessions.
type limiter struct {
	*Limits
	mu sync.Mutex
	// used counts by share: of a pod; of a namespace, without the pod; of a client, without both. all counts the sessions
	// of all clients, by whether they are logs.
	used map[share]int
	all  map[bool]int
	// rates are by namespace, without the pod.
	rates map[share]*rate.Limiter
}

func newLimiter(l *Limits) *limiter {
	return &limiter{Limits: l, used: map[share]int{}, all: map[bool]int{}, rates: map[share]*rate.Limiter{}}
}

// take returns why no session of a share may begin, "" if it may.
func (l *limiter) take(s share) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.used[s] >= l.PerPod:
		return "too many sessions of this client at once in this pod"
	case l.used[s.inNamespace()] >= l.PerNamespace:
		return "too many sessions of this client at once in the pods of this namespace on this node"
	case l.used[s.ofClient()] >= l.PerClient:
		return "too many sessions of this client at once on this node"
	case l.all[s.logs] >= l.Sessions:
		return "too many sessions at once on this node"
	case !l.rate(s.inNamespace()).Allow():
		return "too many sessions of this client a second in the pods of this namespace on this node"
	}
	l.all[s.logs]++
	for _, part := range []share{s, s.inNamespace(), s.ofClient()} {
		l.used[part]++
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
	l.all[s.logs]--
	for _, part := range []share{s, s.inNamespace(), s.ofClient()} {
		if l.used[part]--; l.used[part] == 0 {
			delete(l.used, part)
		}
	}
}
