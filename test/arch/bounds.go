package arch

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// bounding is the package that reads and removes within bounds; what it offers names what to use instead.
const bounding = "runtime/bounded"

// unbounded are the functions that read as much as somebody else has written, wait for the writer of a pipe, or hold a
// descriptor for each level of a tree, by package. The value is what to use instead; the name "" stands for all
// functions that decode or read.
var unbounded = map[string]map[string]string{
	"os": {
		"ReadFile": "ReadFile", "Open": "Open", "ReadDir": "Entries", "RemoveAll": "RemoveTree", "DirFS": "Entries",
	},
	"io":            {"ReadAll": "ReadAll"},
	"io/fs":         {"ReadFile": "ReadFileIn", "ReadDir": "EntriesIn", "WalkDir": "Files", "Glob": "Files"},
	"io/ioutil":     {"": "ReadFile"},
	"path/filepath": {"Walk": "Files", "WalkDir": "Files", "Glob": "Files"},
	"encoding/json": {"": "JSON"}, "encoding/xml": {"": "JSON"}, "encoding/gob": {"": "JSON"},
	"sigs.k8s.io/json": {"": "JSON"}, "k8s.io/apimachinery/pkg/util/json": {"": "JSON"},
	"sigs.k8s.io/yaml": {"": "YAMLToJSON"}, "k8s.io/apimachinery/pkg/util/yaml": {"": "YAMLToJSON"},
	"go.yaml.in/yaml/v3": {"": "YAMLToJSON"}, "go.yaml.in/yaml/v2": {"": "YAMLToJSON"},
	"gopkg.in/yaml.v3": {"": "YAMLToJSON"}, "gopkg.in/yaml.v2": {"": "YAMLToJSON"},
	"github.com/pelletier/go-toml/v2": {"": "TOML"}, "github.com/BurntSushi/toml": {"": "TOML"},
}

// unboundedMethods are the same of os.Root and of directories: no other type of ours has methods of these names.
var unboundedMethods = map[string]string{
	"ReadFile": "ReadFileIn", "RemoveAll": "RemoveTree", "ReadDir": "EntriesIn", "Readdir": "EntriesIn",
	"Readdirnames": "EntriesIn",
}

// boundExceptions may use a package that others may not.
var boundExceptions = []struct{ in, pkg, why string }{
	{"runtime/source/manifest", "go.yaml.in/yaml/v3", "charges what a manifest costs before it expands it"},
	{"runtime/source/manifest", "sigs.k8s.io/yaml", "resolves single words of YAML"},
	{"runtime/source/manifest", "sigs.k8s.io/json", "decodes what it has charged"},
	{"runtime/source/manifest", "encoding/json", "decodes what it has charged, token by token"},
	{"runtime/cluster/client", "sigs.k8s.io/json", "decodes objects that it has bounded one by one"},
	{"runtime/cluster/client", "encoding/json", "decodes what it has bounded, and what names an object token by token"},
	{"runtime/config", "sigs.k8s.io/json", "decodes what YAMLToJSON has bounded"},
}

// checkBounds keeps what reads, decodes or removes without a bound out of the agent.
func checkBounds(t *tree) {
	for _, f := range t.own() {
		if f.test || within(f.path, bounding) || within(f.path, "test") || within(f.path, "deploy") {
			continue
		}
		names := imported(f)
		t.inspect(f, func(n ast.Node) string { return reachesBeyond(f, n, names) })
	}
}

// imported returns the packages that f imports, by the name that they have in it.
func imported(f *file) map[string]string {
	names := map[string]string{}
	for _, spec := range f.ast.Imports {
		pkg, _ := strconv.Unquote(spec.Path.Value) // of what the parser accepted
		if spec.Name != nil {
			names[spec.Name.Name] = pkg
		} else {
			names[packageName(pkg)] = pkg
		}
	}
	return names
}

// reachesBeyond returns why a node of f has no bound, "" if it has one.
func reachesBeyond(f *file, n ast.Node, names map[string]string) string {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	what, instead := sel.Sel.Name, ""
	id, _ := sel.X.(*ast.Ident)
	switch pkg, imported := names[nameOf(id)]; {
	case !imported:
		instead = unboundedMethods[what]
	case excepted(f, pkg):
	case unbounded[pkg][""] != "" && decodes(what):
		what, instead = pkg+"."+what, unbounded[pkg][""]
	default:
		what, instead = pkg+"."+what, unbounded[pkg][what]
	}
	if instead == "" {
		return ""
	}
	return what + " has no bound for what others write: use " + path.Base(bounding) + "." + instead
}

func nameOf(id *ast.Ident) string {
	if id == nil {
		return ""
	}
	return id.Name
}

// decodes reports whether a function of a decoder's package reads, by its name; types and encoders may be used.
func decodes(name string) bool {
	return slices.ContainsFunc([]string{"Unmarshal", "Decode", "NewDecoder", "ToJSON", "Read"}, func(part string) bool {
		return strings.Contains(name, part) && name != "Decoder" && name != "Unmarshaler"
	})
}

func excepted(f *file, pkg string) bool {
	for _, e := range boundExceptions {
		if within(f.path, e.in) && pkg == e.pkg {
			return true
		}
	}
	return false
}

// packageName guesses the name of a package by its path.
func packageName(pkg string) string {
	name := path.Base(pkg)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(pkg))
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}
