package api

import (
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/source/feed"
)

// Name implements drivers.Driver.
func (*Driver) Name() string { return "api source" }

// Recover takes what was recorded of the source.
func (d *Driver) Recover(r fold.Recovered) {
	feed.Recover(r, messages.APISource, d)
	d.recoverAdding(r)
}
