package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// What the man pages are written of.
func TestTextOfEachCommandIsPrinted(t *testing.T) {
	t.Setenv(rootDirEnv, "")
	a, out := testApp()
	root := a.command()
	root.SetArgs([]string{"commands"})
	must.OK(t, root.Execute())
	var texts []commandText
	must.OK(t, json.Unmarshal(out.Bytes(), &texts))
	find := func(path string) commandText {
		i := slices.IndexFunc(texts, func(c commandText) bool { return c.Path == path })
		if i < 0 {
			t.Fatalf("no text of %q", path)
		}
		return texts[i]
	}
	export := find("journalet journal export")
	for _, want := range []flagText{
		{"-h, --help", "help for export"},
		{"--root-dir string", `root directory of the agent (env JOURNALET_ROOT_DIR) (default "/var/lib/journalet")`},
	} {
		if !slices.Contains(export.Flags, want) {
			t.Errorf("%s lacks the flag %q: %q", export.Path, want, export.Flags)
		}
	}
	for _, c := range texts {
		if c.Usage == "" || c.Short == "" || c.Example == "" {
			t.Errorf("%s has no text for its manual: %+v", c.Path, c)
		}
		for _, f := range c.Flags {
			if f.Flag == "" || f.Usage == "" || strings.Contains(f.Flag+f.Usage, "   ") {
				t.Errorf("%s: no text of the flag %q", c.Path, f)
			}
		}
		if strings.Contains(c.Path, "completion") || strings.HasSuffix(c.Path, " commands") {
			t.Errorf("%s is no command for users", c.Path)
		}
	}
	if n := len(texts); n < 25 {
		t.Errorf("only %d commands", n)
	}
}
