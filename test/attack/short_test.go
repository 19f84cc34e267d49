package attack

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// short is what -attack.short carries out: an attack of each kind, in two minutes. Of its kind each is quick, and goes
// through what the others go through, too.
var short = []struct{ kind, name, reason string }{
	{"manifest", "TestAliasesThatMultiply", "the bounds of what a manifest may become when it is decoded"},
	{"container", "TestTerminationMessageOfATebibyte", "a container's file is read with a bound"},
	{"container", "TestProbesThatPrintWithoutEnd", "a container's output is read with a bound, again and again"},
	{"variables", "TestHostileFilesOfVariables", "files of a volume that block, act or lead out of it"},
	{"API server", "TestImpossiblePods", "objects of the API server lead nowhere on the node, and do not stop its actors"},
	{"tenant", "TestListsOfLargeObjects", "a tenant's objects are read one by one, and large ones do not stay in memory"},
	{"peer", "TestObserversThatSubscribeToAll", "who follows the journal delays nobody who writes it"},
	{"socket", "TestStrangersWithoutAKey", "connections without a word are bounded, and leave nothing"},
	{"port", "TestClientsWithoutPermissions", "nobody gets by port 10250 what is not permitted to him"},
	{"session", "TestTarOfAContainer", "what a session brings out of a container stays where it belongs"},
	{"log", "TestLogsOfAnotherPod", "a log's links lead to no other pod"},
	{"volume", "TestLinksOutOfAVolumeAsSubPaths", "a link of a volume leads out of it for nobody"},
	{"plugin", "TestHostileDevicePlugins", "a plugin that floods, hangs or vanishes harms its own pods alone"},
}

func TestShortFormNamesAttacksThatExist(t *testing.T) {
	paths, err := filepath.Glob("*_test.go") // with any tag
	must.OK(t, err)
	exists := map[string]bool{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must.OK(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				exists[f.Name.Name] = true
			}
		}
	}
	for _, a := range short {
		if !exists[a.name] {
			t.Errorf("the short form has %s for attacks by a %s, and there is none of that name", a.name, a.kind)
		}
	}
}
