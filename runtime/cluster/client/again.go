package client

import (
	"sync"
	"time"
)

// How long after something could not be read the objects are listed again: first, and at most. The pause doubles with
// each list that has such a thing, too, so that an object that stays damaged costs a list every five minutes.
const (
	listAgainFirst = 30 * time.Second
	listAgainMost  = 5 * time.Minute
)

// listsAgain says when objects are listed again. An event that could not be read may have been a deletion, and no event
// says that an object can be read again: only a list shows either. A watch that was ended is read on for a moment, so
// its methods may be called concurrently.
type listsAgain struct {
	now func() time.Time

	mu     sync.Mutex
	unread time.Time // of the first thing that could not be read since the last list began; zero: none
	lists  int       // in a row that had such a thing
}

// begin notes that a list begins.
func (a *listsAgain) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unread = time.Time{}
}

// note notes something that cannot be read.
func (a *listsAgain) note() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unread.IsZero() {
		a.unread = a.now()
	}
}

// end notes that a list ended.
func (a *listsAgain) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lists++; a.unread.IsZero() {
		a.lists = 0
	}
}

// due returns after which time the objects are listed again; false: they need not be.
func (a *listsAgain) due() (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unread.IsZero() {
		return 0, false
	}
	pause := listAgainFirst
	for i := 1; i < a.lists && pause < listAgainMost; i++ {
		pause *= 2
	}
	return max(0, min(pause, listAgainMost)-a.now().Sub(a.unread)), true
}
