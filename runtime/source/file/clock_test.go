package file

import (
	"time"

	"github.com/journalet/journalet/runtime/cri"
)

// later is a clock ten seconds ahead.
type later struct{ cri.Clock }

func (l later) Now() time.Time { return l.Clock.Now().Add(10 * time.Second) }
