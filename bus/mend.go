package bus

import (
	"context"
	"errors"
	"sync"
	"time"
)

// mendAfter is how many failures in a row are taken for passing ones before the streams are opened again.
const mendAfter = 1

// mender brings a stream beside the journal back. One that met a write error, a full disk above all,
// refuses everything until it is opened again, and the journal's own recovery may not have touched it.
type mender struct {
	// reopen opens the streams again, unless that was done after since.
	reopen func(since time.Time) error

	mu    sync.Mutex
	fails int
}

// note takes the result of an attempt to store that began at begun, and gives it back. After repeated
// failures it opens the streams again, so that the next attempt may succeed. An attempt that was given
// up by who asked, as at a stop, says nothing about the stream.
func (m *mender) note(ctx context.Context, begun time.Time, result error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case result == nil:
		m.fails = 0
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return result
	}
	if m.fails++; m.fails <= mendAfter {
		return result
	}
	return errors.Join(result, m.reopen(begun))
}
