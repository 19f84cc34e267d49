package secure

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
	flight        singleflight.Group
}

// clock is a clock of a cache.
type clock func() time.Time

// Now returns the time.
func (c clock) Now() time.Time { return c() }

func newAnswers(yes, no time.Duration, now func() time.Time) *answers {
	a := &answers{
		yesTTL: yes, noTTL: no, yes: utilcache.NewLRUExpireCacheWithClock(maxCached, clock(now)),
		no: utilcache.NewLRUExpireCacheWithClock(maxCached, clock(now)),
	}
	_, _ = rand.Read(a.secret[:]) // never fails
	return a
}

// get returns the answer to what key names: a kept one, or that of review, which reports whether it is a yes. Requests
// of the same at the same time share one review. An error is not kept.
func (a *answers) get(key []byte, review func() (answer any, yes bool, err error)) (any, error) {
	mac := hmac.New(sha256.New, a.secret[:])
	mac.Write(key)
	id := string(mac.Sum(nil))
	for _, kept := range []*utilcache.LRUExpireCache{a.yes, a.no} {
		if answer, ok := kept.Get(id); ok {
			return answer, nil
		}
	}
	answer, err, _ := a.flight.Do(id, func() (any, error) {
		answer, yes, err := review()
		switch {
		case err != nil:
		case yes && a.yesTTL > 0:
			a.yes.Add(id, answer, a.yesTTL)
		case !yes && a.noTTL > 0:
			a.no.Add(id, answer, a.noTTL)
		}
		return answer, err
	})
	return answer, err
}
