package arch

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// rule is one rule of the house. What its check reports is refused if the rule is enforced, and only listed by `go run
// ./test/arch/list` if it is not.
type rule struct {
	name     string
	enforced bool
	check    func(*tree)
}

var rules = []rule{
	{"imports run one way", true, checkImports},
	{"deciders are pure", true, checkPurity},
	{"what others write is read within bounds", true, checkBounds},
	{"facts pass one door", true, checkFacts},
	{"packages say what they are for", true, checkDocs},
	{"docs/ARCHITECTURE.md has every room", true, checkRooms},
	{"files and functions fit a screen", true, checkSizes},
	{"tests test", true, checkTests},
	{"tests assert no elapsed time", true, checkElapsed},
	{"panics end the process", true, checkDeferredWaits},
	{"commands start quickly", true, checkStart},
	{"top directories are known", true, checkTopDirs},
	{"files are small", true, checkLarge},
	{"the module can be installed", true, checkGoMod},
	{"paths exist for every reader", true, checkPaths},
	{"links lead somewhere", true, checkLinks},
	{"words are the field's", true, checkWords},
	{"lines end by column 120", true, checkColumns},
	{"comments begin with names", true, checkComments},
	{"references name what exists", true, checkReferences},
}

// run returns what breaks the rule in t.
func (r rule) run(t *tree) []finding {
	t.found = nil
	r.check(t)
	return t.found
}

// List writes what breaks the rules in the checkout at root to w, a line each. It runs the rules whose names contain
// words, and leaves out what is outside dirs; without dirs it lists everything.
func List(w io.Writer, root, words string, dirs []string) error {
	t, err := load(root)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if !strings.Contains(r.name, words) {
			continue
		}
		for _, f := range r.run(t) {
			in := func(dir string) bool { return dir == "." || within(f.path, path.Clean(dir)) }
			if len(dirs) == 0 || slices.ContainsFunc(dirs, in) {
				fmt.Fprintln(w, f)
			}
		}
	}
	return nil
}
