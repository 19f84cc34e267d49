package plain

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestQuoteWritesWhatATerminalActsOnAsJSONDoes(t *testing.T) {
	for s, want := range map[string]string{
		"plain ü \ufffd \U0001f600": "plain ü \ufffd \U0001f600",
		"\x1b]0;x\a":                `\u001b]0;x\u0007`,
		"\u009b1m\x7f\u2029\u061c":  `\u009b1m\u007f\u2029\u061c`,
		"a\tb\n":                    "a\tb\n",
		"\x9b":                      "\ufffd",
	} {
		if got := Quote(s, true); got != want {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := Quote("a\tb\nc", false); got != `a b\nc` {
		t.Errorf("one line became %q", got)
	}
}

func TestJSONKeepsItsValue(t *testing.T) {
	for _, s := range []string{"plain", "\u009b1m", "\x7f \u202e \u2066 \ufeff", "\n\t\x1b", "\\u009b"} {
		in, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		out, back := JSON(in), map[string]string{}
		if err := json.Unmarshal(out, &back); err != nil || back[s] != s {
			t.Errorf("%q became %q: %v", s, back, err)
		}
		if !Shown(string(out), true) {
			t.Errorf("%q acts on a terminal", out)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("ü\x1b\xff\u202e", 3)
	f.Add("\xf0\x9f\x98\x80", 2)
	f.Add("\x80\x80\x80\x80\x80\x80", 5)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 4 + max(0, most)%64
		cut := Cut(s, most)
		if len(cut) > most || !utf8.ValidString(cut) || Cut(cut, most) != cut {
			t.Errorf("Cut(%q, %d) = %q", s, most, cut)
		}
		if utf8.ValidString(s) && (!strings.HasPrefix(s, cut) || len(s) > most && len(cut) <= most-utf8.UTFMax) {
			t.Errorf("Cut(%q, %d) = %q, and the text was UTF-8", s, most, cut)
		}
		for _, lines := range []bool{true, false} {
			q := Quote(s, lines)
			if !Shown(q, lines) || Quote(q, lines) != q || Shown(s, lines) != (q == s) {
				t.Errorf("Quote(%q, %v) = %q", s, lines, q)
			}
			if strings.ContainsFunc(q, func(r rune) bool { return Acts(r) && (!lines || r != '\n' && r != '\t') }) {
				t.Errorf("Quote(%q, %v) = %q, which a terminal acts on", s, lines, q)
			}
		}
	})
}
