package oom

import (
	"time"

	"golang.org/x/time/rate"
)

// Bounds of facts. A container that restarts for lack of memory soon reaches a back-off of 5 min. A container that
// keeps running while its processes are killed can cause thousands of kills a second.
const (
	// every and burst bound the facts about one container, and the facts about no pod.
	every = 10 * time.Second
	burst = 5
	// allEvery and allBurst bound all facts together.
	allEvery = time.Second
	allBurst = 100
	// maxCounted bounds the containers that are counted. Beyond it, those without omitted kills are forgotten, then all.
	maxCounted = 1024
)

// bounds says which kills are recorded, and counts the others.
type bounds struct {
	all *rate.Limiter
	by  map[string]*counted
}

type counted struct {
	limiter *rate.Limiter
	omitted uint32
}

func newBounds() *bounds {
	return &bounds{all: rate.NewLimiter(rate.Every(allEvery), allBurst), by: map[string]*counted{}}
}

// allow reports whether a kill is recorded, and how many of the same key were omitted before it.
func (b *bounds) allow(key string, now time.Time) (omitted uint32, ok bool) {
	c := b.by[key]
	if c == nil {
		b.tidy()
		c = &counted{limiter: rate.NewLimiter(rate.Every(every), burst)}
		b.by[key] = c
	}
	if !c.limiter.AllowN(now, 1) || !b.all.AllowN(now, 1) {
		c.omitted++
		return 0, false
	}
	omitted, c.omitted = c.omitted, 0
	return omitted, true
}

func (b *bounds) tidy() {
	if len(b.by) < maxCounted {
		return
	}
	for key, c := range b.by {
		if c.omitted == 0 {
			delete(b.by, key)
		}
	}
	if len(b.by) >= maxCounted {
		clear(b.by)
	}
}
