package terminal

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestScreenIsThatOfATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"one\r\ntwo\r\n":                       "one\ntwo\n",
		"one\r\x1b[Ktwo":                       "two\n",
		"a\r\nb\r\nc\r\n\x1b[2A\r\x1b[Jx\r\n":  "a\nx\n",
		"old\r\nold\x1b[H\x1b[2Jnew\x1b[K\r\n": "new\n",
		"1\r\n2\r\n3\r\n4\r\n5":                "2\n3\n4\n5\n",
		"123456789012":                         "1234567890\n12\n",
		"\x1b[31mred\x1b[0m \x1b[2mdim":        "red dim\n",
	} {
		if got := Show(text, 10, 4).String(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPictureIsXMLWithTheText(t *testing.T) {
	picture := Show("$ a <b>\r\n\x1b[31mwrong\x1b[0m    at 4\r\n", 20, 5).SVG("a & b")
	for _, want := range []string{
		"<title>a &amp; b</title>", ">$\u00a0a\u00a0&lt;b&gt;</text>", `fill="#ff7b72">wrong</text>`,
		`x="86" y="46" textLength="32">at` + "\u00a0" + "4</text>",
	} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("no %s in\n%s", want, picture)
		}
	}
	must.OK(t, xml.NewDecoder(bytes.NewReader(picture)).Decode(new(struct{})))
}
