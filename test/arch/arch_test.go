package arch

import (
	"slices"
	"testing"
)

// The repository itself, as tests of this package see it.
const root = "../.."

func TestRepositoryKeepsItsRules(t *testing.T) {
	repo := mustLoad(t, root)
	for _, name := range enforced {
		t.Run(name, func(t *testing.T) {
			found, err := checks[name](repo)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Error(f)
			}
		})
	}
}

// A rule over an empty directory holds for nothing: each layer must be where the rules look for it.
func TestEveryLayerHasFiles(t *testing.T) {
	repo := mustLoad(t, root)
	for _, l := range layers {
		if !slices.ContainsFunc(repo.own(), func(f *sourceFile) bool { return within(f.path, l.in) }) {
			t.Errorf("no Go file in %s: it was moved, or the table in imports.go is out of date", l.in)
		}
	}
}

func mustLoad(t *testing.T, root string) *tree {
	t.Helper()
	loaded, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
