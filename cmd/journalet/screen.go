package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/journalet/journalet/messages/plain"
)

// screen is the only way to the user's terminal. What it prints may come from containers, manifests and other nodes, so
// it prints control characters as text: a termination message cannot clear the screen, set a title or hide a line. Only
// paint, status, redraw and fill send control sequences, around quoted text.
type screen struct{ w io.Writer }

// Write prints text with its control characters quoted, except tab and newline. The quoted form is JSON's, so that
// JSON keeps its value.
func (s *screen) Write(b []byte) (int, error) {
	text := string(b)
	if _, err := io.WriteString(s.w, plain.Quote(text, true)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// painted is a part of a line, in a colour if code is set.
type painted struct{ code, text string }

const (
	dim    = "\x1b[2m"
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	normal = "\x1b[0m"
)

// paint prints one line of parts, each with its newlines quoted, too.
func (s *screen) paint(colour bool, parts ...painted) error {
	var b strings.Builder
	for _, p := range parts {
		text := plain.Quote(p.text, false)
		if colour && p.code != "" && text != "" {
			text = p.code + text + normal
		}
		b.WriteString(text)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(s.w, b.String())
	return err
}

// status replaces the line of the cursor, on a terminal.
func (s *screen) status(text string) { fmt.Fprint(s.w, "\r\x1b[K"+plain.Quote(text, false)) }

// back moves the cursor of a terminal up by so many lines, and clears what is below.
func (s *screen) back(lines int) {
	if lines > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\r\x1b[J", lines)
	}
}

// size returns the columns and lines of the terminal, 80 by 24 if they are not known.
func (s *screen) size() (columns, lines int) {
	if f, ok := s.w.(*os.File); ok {
		if c, l, err := term.GetSize(int(f.Fd())); err == nil && c > 0 && l > 0 {
			return c, l
		}
	}
	return 80, 24
}

// redraw replaces the last lines before the cursor, on a terminal, and returns how many there are now. Lines are cut to
// the terminal's width: a wrapped one could not be replaced.
func (s *screen) redraw(before int, lines []string) int {
	s.back(before)
	width, _ := s.size()
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(cutTo(plain.Quote(line, false), width) + "\n")
	}
	_, _ = io.WriteString(s.w, b.String())
	return len(lines)
}

func cutTo(s string, width int) string {
	if r := []rune(s); len(r) >= width {
		return string(r[:max(width-1, 0)])
	}
	return s
}

// fill replaces all that the terminal shows by the lines of a text, as many as it has room for; first also clears what
// was there before.
func (s *screen) fill(text string, first bool) {
	var b strings.Builder
	if b.WriteString("\x1b[H"); first {
		b.WriteString("\x1b[2J")
	}
	_, room := s.size()
	for line := range strings.Lines(text) {
		if room--; room == 0 { // the last line holds the cursor
			break
		}
		b.WriteString(plain.Quote(strings.TrimSuffix(line, "\n"), false) + "\x1b[K\r\n")
	}
	fmt.Fprint(s.w, b.String()+"\x1b[J")
}

// terminal reports whether it is a terminal.
func (s *screen) terminal() bool {
	f, ok := s.w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour reports whether it may have colours.
func (s *screen) colour() bool { return os.Getenv("NO_COLOR") == "" && s.terminal() }
