package arch

import (
	"slices"
	"testing"
)

// The repository itself, as tests of this package see it.
const root = "../.."

func TestRepositoryKeepsItsRules(t *testing.T) {
	repo := mustLoad(t, root)
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			found, err := check(repo)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Error(f)
			}
		})
	}
}

// A rule over an empty folder holds for nothing: each layer must be where the rules look for it.
func TestEveryLayerIsWhereTheRulesLook(t *testing.T) {
	repo := mustLoad(t, root)
	for _, l := range layers {
		if !slices.ContainsFunc(repo.own(), func(f *sourceFile) bool { return within(f.path, l.in) }) {
			t.Errorf("no Go file in %s: it was moved, or the table in imports.go is out of date", l.in)
		}
	}
}

// checks are all rules by name.
var checks = map[string]func(*tree) ([]finding, error){
	"imports run one way":              sure(checkImports),
	"deciders are pure":                checkPurity,
	"packages say what they are for":   sure(checkDocs),
	"files and functions fit a screen": sure(checkSizes),
	"tests test":                       sure(checkTests),
	"top folders are the known ones":   sure(checkTopFolders),
	"the module can be installed":      checkGoMod,
	"paths exist for every reader":     checkPaths,
	"links lead somewhere":             checkLinks,
	"claims name tests that exist":     checkScope,
}

func sure(check func(*tree) []finding) func(*tree) ([]finding, error) {
	return func(t *tree) ([]finding, error) { return check(t), nil }
}

func mustLoad(t *testing.T, root string) *tree {
	t.Helper()
	loaded, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
