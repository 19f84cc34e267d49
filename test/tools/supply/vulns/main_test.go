package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCalledVulnerabilityFails(t *testing.T) {
	for _, one := range []struct{ body, fails string }{
		{body: "func main() { println(mod.Version{Path: \"x\"}.String(), Check(\"a\", \"v1\")) }\n" +
			"func Check(p, v string) error { return mod.Check(p, v) }", fails: "call vulnerable code"},
		{body: "func main() { println(mod.Version{Path: \"x\"}.String()) }"},
	} {
		root := t.TempDir()
		put(t, filepath.Join(root, "main.go"), "package main\n\nimport mod \"golang.org/x/mod/module\"\n\n"+one.body+"\n")
		for _, name := range []string{"go.mod", "go.sum"} {
			data, err := os.ReadFile(filepath.Join("..", name))
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(root, name), strings.Replace(string(data), "tools/supply", "tools/probe", 1))
		}
		var out strings.Builder
		err := run(context.Background(), root, "file://"+database(t), &out)
		if got := err != nil; got != (one.fails != "") || err != nil && !strings.Contains(err.Error(), one.fails) {
			t.Errorf("the check of\n%s\nreturned %v, want %q\n%s", one.body, err, one.fails, out.String())
		}
	}
}

func TestDatabaseOutOfReachIsReportedAndNoFailure(t *testing.T) {
	var out strings.Builder
	if err := run(context.Background(), "../../../..", "http://127.0.0.1:1", &out); err != nil {
		t.Errorf("run: %v", err)
	}
	if !strings.Contains(out.String(), "NOT CHECKED") {
		t.Errorf("the output does not report that nothing was checked: %s", out.String())
	}
}

// database returns a database with one invented vulnerability, in module.Check of golang.org/x/mod.
func database(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const at = `"2026-01-01T00:00:00Z"`
	put(t, filepath.Join(dir, "index/db.json"), `{"modified":`+at+`}`)
	put(t, filepath.Join(dir, "index/modules.json"),
		`[{"path":"golang.org/x/mod","vulns":[{"id":"GO-0000-0001","modified":`+at+`}]}]`)
	put(t, filepath.Join(dir, "index/vulns.json"), `[{"id":"GO-0000-0001","modified":`+at+`}]`)
	put(t, filepath.Join(dir, "ID/GO-0000-0001.json"), `{"schema_version":"1.3.1","id":"GO-0000-0001","modified":`+at+`,
		"published":`+at+`,"summary":"invented","details":"invented","database_specific":{"url":"https://example.org"},"affected":[{"package":{"name":"golang.org/x/mod","ecosystem":"Go"},
		"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
		"ecosystem_specific":{"imports":[{"path":"golang.org/x/mod/module","symbols":["Check"]}]}}]}`)
	return dir
}

func put(t *testing.T, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o750)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
