package secureport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"golang.org/x/sync/singleflight"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

// maxCached bounds each cache, in answers (kubelet: 8192 reviews of access). Yes and no have a cache each, so that who
// is refused again and again displaces no permission.
const maxCached = 4096

// answers keeps the answers of one kind of review. A key is hashed with a secret of this process: no token is kept.
type answers struct {
	secret  [sha256.Size]byte
	yes, no *utilcache.LRUExpireCache
	// yesTTL and noTTL are how long an answer is kept; 0: not at all.
	yesTTL, noTTL time.Duration
	// early: a yes is requested again in the second half of its time, and serves meanwhile. So no client waits for a
	// review, or is refused one, that sends requests all the time. known are the keys whose last answer was yes.
	early  bool
	known  *utilcache.LRUExpireCache
	now    func() time.Time
	flight singleflight.Group
}

// kept is a kept answer.
type kept struct {
	answer any
	at     time.Time
}

// clock is a clock of a cache.
type clock func() time.Time

// Now returns the time.
func (c clock) Now() time.Time { return c() }

func newAnswers(yes, no time.Duration, now func() time.Time) *answers {
	a := &answers{
		yesTTL: yes, noTTL: no, yes: utilcache.NewLRUExpireCacheWithClock(maxCached, clock(now)),
		no:    utilcache.NewLRUExpireCacheWithClock(maxCached, clock(now)),
		known: utilcache.NewLRUExpireCacheWithClock(maxCached, clock(now)), now: now,
	}
	_, _ = rand.Read(a.secret[:]) // never fails
	return a
}

// get returns the answer to what key names: a kept answer, or the answer of review, which receives whether the last
// answer was a yes, and reports whether its answer is one. Requests of the same at the same time share one review. An
// error is not kept.
func (a *answers) get(key []byte, review func(known bool) (answer any, yes bool, err error)) (any, error) {
	mac := hmac.New(sha256.New, a.secret[:])
	mac.Write(key)
	id := string(mac.Sum(nil))
	request := func() (any, error) {
		_, known := a.known.Get(id)
		answer, yes, err := review(known)
		if err == nil {
			a.keep(id, answer, yes)
		}
		return answer, err
	}
	if yes, ok := a.yes.Get(id); ok {
		if k := yes.(kept); a.early && a.now().Sub(k.at) >= a.yesTTL/2 {
			a.flight.DoChan(id, request)
		}
		return yes.(kept).answer, nil
	}
	if no, ok := a.no.Get(id); ok {
		return no.(kept).answer, nil
	}
	answer, err, _ := a.flight.Do(id, request)
	return answer, err
}

// keep keeps an answer.
func (a *answers) keep(id string, answer any, yes bool) {
	k := kept{answer, a.now()}
	if !yes {
		a.known.Remove(id)
		a.yes.Remove(id)
		if a.noTTL > 0 {
			a.no.Add(id, k, a.noTTL)
		}
		return
	}
	a.known.Add(id, nil, knownFor)
	if a.yesTTL > 0 {
		a.yes.Add(id, k, a.yesTTL)
	}
}
