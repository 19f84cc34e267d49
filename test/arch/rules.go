package arch

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// checks are all rules by name.
var checks = map[string]func(*tree) ([]finding, error){
	"imports run one way":              sure(checkImports),
	"deciders are pure":                checkPurity,
	"packages say what they are for":   sure(checkDocs),
	"files and functions fit a screen": sure(checkSizes),
	"tests test":                       sure(checkTests),
	"top directories are known":        sure(checkTopDirs),
	"the module can be installed":      checkGoMod,
	"paths exist for every reader":     checkPaths,
	"links lead somewhere":             checkLinks,
	"claims name tests that exist":     checkScope,
	"words are the field's":            checkWords,
	"lines end by column 120":          checkColumns,
	"comments begin with names":        sure(checkComments),
	"references name what exists":      checkReferences,
}

// enforced are the rules that the repository keeps. A rule that is not among them yet is only listed by `go run
// ./test/arch/list`.
var enforced = []string{
	"imports run one way",
	"deciders are pure",
	"packages say what they are for",
	"files and functions fit a screen",
	"tests test",
	"top directories are known",
	"the module can be installed",
	"paths exist for every reader",
	"links lead somewhere",
	"claims name tests that exist",
}

func sure(check func(*tree) []finding) func(*tree) ([]finding, error) {
	return func(t *tree) ([]finding, error) { return check(t), nil }
}

// List writes what breaks the rules in the checkout at root, a line each, to w. It runs the rules whose names contain
// rule, and leaves out what is outside dirs; without dirs it lists everything. With counts it writes how many there are
// in each directory instead.
func List(w io.Writer, root, rule string, dirs []string, counts bool) error {
	t, err := load(root)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if !strings.Contains(name, rule) {
			continue
		}
		found, err := checks[name](t)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found = slices.DeleteFunc(found, func(f finding) bool {
			in := func(dir string) bool { return dir == "." || within(f.path, path.Clean(dir)) }
			return len(dirs) > 0 && !slices.ContainsFunc(dirs, in)
		})
		if counts {
			count(w, name, found)
			continue
		}
		for _, f := range found {
			fmt.Fprintln(w, f)
		}
	}
	return nil
}

func count(w io.Writer, rule string, found []finding) {
	in := map[string]int{}
	for _, f := range found {
		in[path.Dir(f.path)]++
	}
	fmt.Fprintf(w, "%6d %s\n", len(found), rule)
	for _, dir := range slices.Sorted(maps.Keys(in)) {
		fmt.Fprintf(w, "%6d   %s\n", in[dir], dir)
	}
}
