package plain

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Acts reports whether a terminal acts on a character instead of showing it: C0 (also tab and newline), DEL, C1, what
// changes the direction of text, and what separates lines and paragraphs.
func Acts(r rune) bool {
	switch {
	case r < 0x20, 0x7f <= r && r <= 0x9f, // C0, DEL, C1
		r == 0x061c, r == 0x200e, r == 0x200f, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069, // direction
		r == 0x2028, r == 0x2029: // separators of lines and paragraphs
		return true
	}
	return false
}

// Shown reports whether Quote leaves a text as it is. With lines, tab and newline count as shown.
func Shown(s string, lines bool) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < 0x20 && (!lines || c != '\n' && c != '\t') {
			return c >= utf8.RuneSelf && shownRunes(s[i:], lines)
		}
	}
	return true
}

func shownRunes(s string, lines bool) bool {
	for i, r := range s {
		if r == utf8.RuneError && !whole(s[i:]) || acts(r, lines) {
			return false
		}
	}
	return true
}

// whole reports whether a text begins with a whole character: U+FFFD may be one.
func whole(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size > 1 || s[0] < utf8.RuneSelf
}

func acts(r rune, lines bool) bool { return Acts(r) && (!lines || r != '\n' && r != '\t') }

// Quote writes the characters of a text that Acts names as JSON does, such as \u001b, so that text within JSON keeps
// its value. With lines, tab and newline stay; without, a newline is \n and a tab a space. A byte that is not UTF-8
// becomes U+FFFD.
func Quote(s string, lines bool) string {
	if Shown(s, lines) {
		return s
	}
	var b strings.Builder
	for _, r := range s { // an invalid byte is U+FFFD
		switch {
		case !acts(r, lines):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// JSON is Quote for encoded JSON, whose value stays the same: such characters are within its strings only. What is
// shorter than a space JSON has escaped itself, or it is white space between values.
func JSON(b []byte) []byte {
	for _, c := range b {
		if c >= 0x7f {
			return []byte(Quote(string(b), true))
		}
	}
	return b
}

// Cut returns the first most bytes of a text, or fewer: no character is cut in two. Each byte that is not UTF-8 becomes
// U+FFFD, as in the JSON of a kubelet.
func Cut(s string, most int) string {
	s = head(s, most)
	if utf8.ValidString(s) {
		return s
	}
	return head(string([]rune(s)), most)
}

// head cuts a text before a character.
func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	// The first byte that is left out; a character has at most three more after its first.
	for at := most; at > 0 && at > most-utf8.UTFMax; at-- {
		if utf8.RuneStart(s[at]) {
			return s[:at]
		}
	}
	return s[:most]
}
