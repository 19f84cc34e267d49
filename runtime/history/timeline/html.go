package timeline

import (
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
)

// The parts of the page.
var (
	//go:embed page/page.html
	page string
	//go:embed page/style.css
	style string
	//go:embed page/model.js
	model string
	//go:embed page/draw.js
	drawing string
	//go:embed page/app.js
	app string
)

// HTML writes the picture as one page. The page loads nothing: its policy permits its own script and style, by their
// hashes, and no connection. Everything that was recorded is data within it: JSON without <, > and &, which the script
// shows as text. The fields of events, a third of the data, come after the script: only a selected event shows them.
func (t *Timeline) HTML(w io.Writer) error {
	drawn, fields := *t, make([]json.RawMessage, len(t.Events))
	drawn.Events = make([]*Event, len(t.Events))
	for i, e := range t.Events {
		bare := *e
		fields[i], bare.Data = bare.Data, nil
		drawn.Events[i] = &bare
	}
	data, err := json.Marshal(drawn) // escapes <, > and &
	if err != nil {
		return fmt.Errorf("write the timeline: %w", err)
	}
	later, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("write the timeline: %w", err)
	}
	script := "\n" + model + drawing + app
	policy := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'",
		hashOf(script), hashOf(style))
	title := "node " + t.Node
	if len(t.Groups) == 2 {
		title = t.Groups[1].Name
	}
	_, err = strings.NewReplacer("{{policy}}", policy, "{{title}}", html.EscapeString(title)+" · Journalet timeline",
		"{{style}}", style, "{{script}}", script, "{{data}}", string(data), "{{fields}}", string(later)).WriteString(w, page)
	if err != nil {
		return fmt.Errorf("write the timeline: %w", err)
	}
	return nil
}

// hashOf returns the source expression that permits one script or style.
func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
