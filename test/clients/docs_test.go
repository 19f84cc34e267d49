package clients

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

var update = flag.Bool("clients.update", false, "write the clients into docs/OBSERVING.md")

// TestDocumentShowsTheClientsThatAreTested compares the blocks of docs/OBSERVING.md with the files.
func TestDocumentShowsTheClientsThatAreTested(t *testing.T) {
	const page = "../../docs/OBSERVING.md"
	b, err := os.ReadFile(page)
	must.OK(t, err)
	text := string(b)
	for _, c := range []struct{ file, language string }{
		{"go/main.go", "go"}, {"python/observe.py", "python"}, {"javascript/observe.js", "javascript"},
		{"nats-cli/observe.sh", "bash"},
	} {
		program, err := os.ReadFile(c.file)
		must.OK(t, err)
		begin, end := "<!-- "+c.file+" -->\n\n```"+c.language+"\n", "```\n"
		before, rest, found := strings.Cut(text, begin)
		shown, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s has no block of %s", page, c.file)
		}
		if shown != string(program) && !*update {
			t.Errorf("%s shows another %s: go test ./test/clients -clients.update writes it", page, c.file)
		}
		text = before + begin + string(program) + end + after
	}
	if *update {
		must.OK(t, os.WriteFile(page, []byte(text), 0o600))
	}
}
