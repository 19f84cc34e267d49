package main

import (
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
)

// tones are the colours of events' texts by how much they matter; the others have none.
var tones = map[journaletv1.Severity]string{
	kind.Trace: dim, kind.Progress: green, kind.Warning: yellow, kind.Failure: red,
}

// tone returns the colour of an event's text, "" for none.
func tone(e *journaletv1.Event) string { return tones[kind.Severity(e)] }
