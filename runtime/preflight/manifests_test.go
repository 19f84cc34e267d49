package preflight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestManifestsAreCheckedTogether(t *testing.T) {
	m := testMachine(t)
	dir := m.path(m.cfg.StaticPodPath)
	must.OK(t, os.MkdirAll(dir, 0o700))
	good := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: x}]}\n"
	for _, c := range []struct {
		file, text, want string
		status           Status
	}{
		{"a.yaml", good, "1 pods in 1 files", OK},
		{"a.yaml.bak", good, "1 problems, the first: ", Warn},
		{"b.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {}\n", "2 problems, the first: ", Warn},
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600))
		found := m.manifests(t.Context())
		if len(found) != 1 || found[0].Status != c.status || !strings.HasPrefix(found[0].Message, c.want) {
			t.Errorf("with %s: %+v", c.file, found)
		}
	}
	m.cfg.StaticPodPath = "/nowhere"
	if found := m.manifests(t.Context()); len(found) != 0 {
		t.Errorf("without the directory: %+v", found)
	}
}
