package file

import (
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/source/feed"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "file source" }

// Recover takes what was recorded of the source.
func (d *Driver) Recover(r fold.Recovered) { feed.Recover(r, d.sender.Source, d) }
