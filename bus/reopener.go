package bus

import (
	"context"
	"errors"
	"sync"
	"time"
)

// toleratedFailures is how many failures in a row are taken as temporary before the streams are opened again.
const toleratedFailures = 1

// reopener recovers a stream other than the journal's. One that met a write error, most often a full disk, refuses
// everything until it is opened again, and the journal's own recovery may not have done that.
type reopener struct {
	// reopen opens the streams again, unless that was done after since.
	reopen func(since time.Time) error

	mu    sync.Mutex
	fails int
}

// note takes the result of an attempt to store that began at begun, and returns it. After repeated failures it opens
// the streams again, so that the next attempt may succeed. An attempt that its caller canceled, as at a stop, is no
// evidence about the stream.
func (m *reopener) note(ctx context.Context, begun time.Time, result error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case result == nil:
		m.fails = 0
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return result
	}
	if m.fails++; m.fails <= toleratedFailures {
		return result
	}
	return errors.Join(result, m.reopen(begun))
}
