package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/messages/plain"
)

// Output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// printValue prints v as JSON or YAML.
func printValue(w *screen, format string, v any) error {
	b, err := json.MarshalIndent(v, "", "    ")
	if err == nil && format == formatYAML {
		b, err = yaml.JSONToYAML(b)
	}
	if err != nil {
		return fmt.Errorf("print the response: %w", err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(b), "\n"))
	return err
}

const (
	columnGap = 3
	// minColumn keeps short columns from moving when a later cell is a little longer.
	minColumn = 3
)

// table prints rows in columns. Unlike text/tabwriter it keeps the widths from one print to the next, so that later
// rows line up with their headings.
type table struct {
	w      *screen
	widths []int
	indent string
}

func (t *table) print(rows ...[]string) {
	for _, row := range rows {
		for i := range row {
			row[i] = plain.Quote(row[i], false)
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, minColumn)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		b.WriteString(t.indent)
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+columnGap))
			}
		}
		fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
	}
}
