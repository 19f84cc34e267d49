package file

import (
	"time"

	"github.com/journalet/journalet/runtime/clock"
)

// later is a clock ten seconds ahead.
type later struct{ clock.Clock }

func (l later) Now() time.Time { return l.Clock.Now().Add(10 * time.Second) }
