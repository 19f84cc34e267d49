package terminal

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// Screen is what a terminal shows after a text: enough of one for the commands of this project, which move the cursor,
// clear, and colour.
type Screen struct {
	columns, rows int
	lines         [][]cell
	x, y          int
	style         string
}

type cell struct {
	r     rune
	style string // the parameters of the last SGR sequence; "": none
}

// Show returns the screen of a terminal of a size after a text.
func Show(text string, columns, rows int) *Screen {
	s := &Screen{columns: columns, rows: rows, lines: [][]cell{nil}}
	for len(text) > 0 {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				break
			}
			s.control(rest[end], rest[:end])
			text = rest[end+1:]
			continue
		}
		r := []rune(text)[0]
		s.put(r)
		text = text[len(string(r)):]
	}
	return s
}

func (s *Screen) control(final byte, parameters string) {
	n, err := strconv.Atoi(parameters)
	if err != nil {
		n = 1
	}
	switch final {
	case 'A':
		s.y = max(0, s.y-n)
	case 'B':
		for range n {
			s.down()
		}
	case 'C':
		s.x = min(s.columns, s.x+n)
	case 'D':
		s.x = max(0, s.x-n)
	case 'H':
		s.x, s.y = 0, 0
	case 'K':
		s.cut()
	case 'J':
		if parameters == "2" {
			s.lines = make([][]cell, s.y+1)
			return
		}
		s.cut()
		s.lines = s.lines[:s.y+1]
	case 'm':
		if s.style = parameters; parameters == "0" {
			s.style = ""
		}
	}
}

// cut clears the line from the cursor on.
func (s *Screen) cut() { s.lines[s.y] = s.lines[s.y][:min(s.x, len(s.lines[s.y]))] }

func (s *Screen) put(r rune) {
	switch r {
	case '\r':
		s.x = 0
		return
	case '\n':
		s.down()
		return
	}
	if r < ' ' {
		return
	}
	if s.x == s.columns {
		s.x = 0
		s.down()
	}
	line := s.lines[s.y]
	for len(line) <= s.x {
		line = append(line, cell{r: ' '})
	}
	line[s.x] = cell{r, s.style}
	s.lines[s.y] = line
	s.x++
}

func (s *Screen) down() {
	if s.y++; s.y == len(s.lines) {
		s.lines = append(s.lines, nil)
	}
	if len(s.lines) > s.rows {
		s.lines, s.y = s.lines[1:], s.y-1
	}
}

// String returns what is shown, without colours.
func (s *Screen) String() string {
	var b strings.Builder
	for _, line := range s.lines {
		text := ""
		for _, c := range line {
			text += string(c.r)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Measures of a picture, in its units.
const (
	charWidth, lineHeight = 8, 18
	margin                = 14
)

// fills are the colours of styles.
var fills = map[string]string{"1": "#ffffff", "2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#f2cc60"}

// SVG returns the screen as a picture.
func (s *Screen) SVG(title string) []byte {
	lines := strings.Split(strings.TrimSuffix(s.String(), "\n"), "\n")
	width, height := s.columns*charWidth+2*margin, len(lines)*lineHeight+2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img">`+"\n",
		width, height, width)
	b.WriteString("<title>")
	_ = xml.EscapeText(&b, []byte(title)) // a buffer takes everything
	b.WriteString("</title>\n" + `<rect width="100%" height="100%" rx="8" fill="#161b22"/>` + "\n" +
		`<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13" fill="#e6edf3" xml:space="preserve">` + "\n")
	for y := range lines {
		for _, r := range s.runs(y) {
			fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%d"`, margin+r.at*charWidth, margin+(y+1)*lineHeight-4,
				len([]rune(r.text))*charWidth)
			if fill := fills[r.style]; fill != "" {
				fmt.Fprintf(&b, ` fill="%s"`, fill)
			}
			b.WriteString(">")
			_ = xml.EscapeText(&b, []byte(strings.ReplaceAll(r.text, " ", "\u00a0"))) // renderers fold spaces
			b.WriteString("</text>\n")
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

// run is a piece of a line in one style.
type run struct {
	at          int
	text, style string
}

// runs returns the pieces of a line. Wide gaps are left out.
func (s *Screen) runs(y int) (out []run) {
	const gap = "   "
	for x, c := range s.lines[y] {
		last := len(out) - 1
		if last < 0 || out[last].style != c.style || strings.HasSuffix(out[last].text, gap) {
			if c.r == ' ' {
				continue
			}
			if last >= 0 {
				out[last].text = strings.TrimRight(out[last].text, " ")
			}
			out = append(out, run{x, string(c.r), c.style})
			continue
		}
		out[last].text += string(c.r)
	}
	if len(out) > 0 {
		out[len(out)-1].text = strings.TrimRight(out[len(out)-1].text, " ")
	}
	return out
}
