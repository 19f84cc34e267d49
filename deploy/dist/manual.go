package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// command is what `journalet commands` prints of one.
type command struct {
	Path, Usage, Short, Long, Example string
	Aliases                           []string
	Flags                             []struct{ Flag, Usage string }
}

// manual returns a man page of each command, by the name of its file.
func manual(commands []command, version string, date time.Time) map[string][]byte {
	pages := map[string][]byte{}
	for _, c := range commands {
		pages[pageName(c.Path)+".1"] = []byte(page(c, commands, version, date))
	}
	return pages
}

// pageName is "journalet-journal-export" for the command "journalet journal export".
func pageName(path string) string { return strings.ReplaceAll(path, " ", "-") }

func page(c command, all []command, version string, date time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH \"%s\" 1 \"%s\" \"journalet %s\" \"Journalet\"\n", strings.ToUpper(pageName(c.Path)),
		date.Format(time.DateOnly), roff(version))
	b.WriteString(".nh\n.ad l\n") // names of events and flags are not split
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c.Path)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(c.Usage))
	b.WriteString(".SH DESCRIPTION\n")
	writeText(&b, strings.TrimSpace(cmp.Or(c.Long, c.Short)))
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, ".PP\nAlso: %s\n", roff(strings.Join(c.Aliases, ", ")))
	}
	b.WriteString(".SH OPTIONS\n")
	for _, f := range c.Flags {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(f.Flag), roff(f.Usage))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(strings.Trim(c.Example, "\n")))
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(seeAlso(c, all), ",\n"))
	return b.String()
}

// writeText writes paragraphs. One with an indented line is a table, and keeps its lines.
func writeText(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.Contains("\n"+paragraph, "\n ") {
			fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(paragraph))
			continue
		}
		fmt.Fprintf(b, "%s\n", roff(paragraph))
	}
}

// seeAlso names the pages of the command above and of the commands right below.
func seeAlso(c command, all []command) []string {
	var out []string
	for _, other := range all {
		if parent(other.Path) == c.Path || parent(c.Path) == other.Path {
			out = append(out, "\\fB"+roff(pageName(other.Path))+"\\fR(1)")
		}
	}
	slices.Sort(out)
	return out
}

// parent is "journalet journal" for "journalet journal export", and "" for "journalet".
func parent(path string) string { return path[:max(0, strings.LastIndex(path, " "))] }

var quoted = regexp.MustCompile("`([^`\n]+)`")

// roff escapes text for a man page: backslashes, dashes that have to stay as typed, and lines that would be requests.
// What is set as code becomes bold.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(quoted.ReplaceAllString(text, `\fB$1\fR`), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
