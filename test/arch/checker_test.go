package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// violation breaks one rule in an otherwise clean tree, and names the check that must find it.
type violation struct {
	name  string
	check string
	file  string
	src   string
	want  string // in the one finding's line; "" where the tree is allowed
}

var violations = slices.Concat(languageViolations, []violation{
	{
		name: "a decider imports the bus", check: "imports run one way", file: "actors/pod/x.go",
		src:  goFile("pod", `import _ "github.com/journalet/journalet/bus"`),
		want: "actors/pod/x.go:2: imports github.com/journalet/journalet/bus",
	},
	{
		name: "a decider's test imports the runtime", check: "imports run one way", file: "actors/pod/x_test.go",
		src:  goFile("pod", `import _ "github.com/journalet/journalet/runtime/host"`),
		want: "actors may import of our own only",
	},
	{
		name: "a decider imports os", check: "imports run one way", file: "actors/pod/x.go",
		src: goFile("pod", `import _ "os"`), want: "performs no I/O",
	},
	{
		name: "a decider imports a package below a banned one", check: "imports run one way", file: "actors/pod/x.go",
		src: goFile("pod", `import _ "math/rand/v2"`), want: "replay must decide the same",
	},
	{
		name: "a decider imports context", check: "imports run one way", file: "actors/pod/x.go",
		src: goFile("pod", `import _ "context"`), want: "neither waits nor shares",
	},
	{
		name: "a decider parses an address", check: "imports run one way", file: "actors/pod/x.go",
		src: goFile("pod", `import _ "net/netip"`),
	},
	{
		name: "a decider's test reads a file", check: "imports run one way", file: "actors/pod/x_test.go",
		src: goFile("pod", `import _ "os"`),
	},
	{
		name: "messages import an actor", check: "imports run one way", file: "messages/x.go",
		src:  goFile("messages", `import _ "github.com/journalet/journalet/actors/pod"`),
		want: "messages may import of our own only messages",
	},
	{
		name: "generated types import the envelope", check: "imports run one way", file: "messages/journaletv1/x.go",
		src: goFile("journaletv1", `import _ "github.com/journalet/journalet/messages"`), want: "of our own only nothing",
	},
	{
		name: "the bus imports an actor", check: "imports run one way", file: "bus/x.go",
		src: goFile("bus", `import _ "github.com/journalet/journalet/actors/pod"`), want: "bus may import of our own only",
	},
	{
		name: "the runtime imports the command", check: "imports run one way", file: "runtime/cri/x.go",
		src:  goFile("cri", `import _ "github.com/journalet/journalet/cmd/journalet"`),
		want: "runtime may import of our own only",
	},
	{
		name: "a driver imports protoactor", check: "imports run one way", file: "runtime/cri/x.go",
		src: goFile("cri", `import _ "github.com/asynkron/protoactor-go/actor"`), want: "only runtime/host knows protoactor",
	},
	{
		name: "the host imports protoactor's actor package", check: "imports run one way", file: "runtime/host/x.go",
		src: goFile("host", `import _ "github.com/asynkron/protoactor-go/actor"`),
	},
	{
		name: "the host imports protoactor's scheduler", check: "imports run one way", file: "runtime/host/x.go",
		src: goFile("host", `import _ "github.com/asynkron/protoactor-go/scheduler"`), want: "only the actor package is used",
	},
	{
		name: "a driver imports NATS", check: "imports run one way", file: "runtime/cri/x.go",
		src: goFile("cri", `import _ "github.com/nats-io/nats.go"`), want: "NATS is the bus's",
	},
	{
		name: "the query side imports NATS", check: "imports run one way", file: "runtime/api/query/x.go",
		src: goFile("query", `import _ "github.com/nats-io/nats.go"`),
	},
	{
		name: "a driver imports the simulation", check: "imports run one way", file: "runtime/cri/pleg/x.go",
		src:  goFile("pleg", `import _ "github.com/journalet/journalet/runtime/sim"`),
		want: "only the assembly in runtime/agent",
	},
	{
		name: "a driver's test imports the simulation", check: "imports run one way", file: "runtime/cri/pleg/x_test.go",
		src: goFile("pleg", `import _ "github.com/journalet/journalet/runtime/sim"`),
	},
	{
		name: "a test imports the kubelet", check: "imports run one way", file: "runtime/cri/x_test.go",
		src: goFile("cri", `import _ "k8s.io/kubernetes/pkg/kubelet"`), want: "test/oracle",
	},
	{
		name: "a decider reads the clock", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "import \"time\"\n\nvar _ = time.Now()"), want: "actors/pod/x.go:4: Now of time reads the clock",
	},
	{
		name: "a decider reads the clock under another name", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "import clock \"time\"\n\nvar now = clock.Since"), want: "Since of time reads the clock",
	},
	{
		name: "a decider counts durations", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "import \"time\"\n\nvar grace = 30 * time.Second\n\n"+
			"func later(t time.Time) bool { return t.Add(grace).After(t) }"),
	},
	{
		name: "a decider starts a goroutine", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "func f() { go f() }"), want: "starts no goroutine",
	},
	{
		name: "a decider takes a channel", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "func f(c chan int) {}"), want: "has no channels",
	},
	{
		name: "a decider selects", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "func f() {\n\tselect {}\n}"), want: "x.go:3: a decider has no channels",
	},
	{
		name: "a decider ranges over a named map", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "type names map[string]int\n\nfunc f(n names) (s int) {\n"+
			"\tfor _, v := range n {\n\t\ts += v\n\t}\n\treturn s\n}"),
		want: "x.go:5: ranges over a map",
	},
	{
		name: "a decider ranges over any map", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod",
			"func f[M ~map[string]int](m M) (s int) {\n\tfor _, v := range m {\n\t\ts += v\n\t}\n\treturn s\n}"),
		want: "ranges over a map",
	},
	{
		name: "a decider collects keys in no order", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "import (\n\t\"maps\"\n\t\"slices\"\n)\n\n"+
			"func f(m map[string]int) []string { return slices.Collect(maps.Keys(m)) }"),
		want: "maps.Keys has no order",
	},
	{
		name: "a decider ranges over sorted keys", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "import (\n\t\"maps\"\n\t\"slices\"\n)\n\n"+
			"func f(m map[string]int) (s int) {\n\tfor _, k := range slices.Sorted(maps.Keys(m)) {\n"+
			"\t\ts += m[k]\n\t}\n\treturn s\n}"),
	},
	{
		name: "a decider prints a message", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "import \"fmt\"\n\ntype m struct{}\n\nfunc (*m) ProtoReflect() {}\n\n"+
			"func f(x *m) string { return fmt.Sprint(x) }"),
		want: "x.go:8: the text of a message",
	},
	{
		name: "a decider asks a message for its text", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "type m struct{}\n\nfunc (*m) ProtoReflect() {}\n\n"+
			"func (*m) String() string { return \"\" }\n\nfunc f(x *m) string { return x.String() }"),
		want: "x.go:8: the text of a message",
	},
	{
		name: "a decider takes the machine's time zone", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "import \"time\"\n\nvar _ = time.Unix(0, 0)"), want: "Unix of time is of the machine's zone",
	},
	{
		name: "a decider walks over fields", check: "imports run one way", file: "actors/pod/x.go",
		src: goFile("pod", `import _ "reflect"`), want: "what reflection walks over",
	},
	{
		name: "a decider does not compile", check: "deciders are pure", file: "actors/pod/x.go",
		src: goFile("pod", "var x int = \"one\""), want: "does not compile",
	},
	{
		name: "a package without doc.go", check: "packages say what they are for", file: "runtime/new/x.go",
		src: goFile("new", ""), want: "runtime/new: has no doc.go",
	},
	{
		name: "a doc.go that says nothing", check: "packages say what they are for", file: "runtime/new/doc.go",
		src: "package empty\n", want: "runtime/new: has no doc.go with a package comment",
	},
	{
		name: "a generated package", check: "packages say what they are for", file: "messages/journaletv2/x.pb.go",
		src: "// Code generated by hand. DO NOT EDIT.\npackage journaletv2\n",
	},
	{
		name: "a long file", check: "files and functions fit a screen", file: "bus/x.go",
		src: goFile("bus", strings.Repeat("\n", maxFileLines-1)), want: "bus/x.go: 501 lines, at most 500",
	},
	{
		name: "a long function", check: "files and functions fit a screen", file: "bus/x.go",
		src: goFile("bus", "func f() {"+strings.Repeat("\n", maxFunctionLines+2)+"}"), want: "f has 71 lines, at most 70",
	},
	{
		name: "a long test", check: "files and functions fit a screen", file: "bus/x_test.go",
		src: goFile("bus", "func f() {"+strings.Repeat("\n", maxFileLines)+"}"),
	},
	{
		name: "a long flat switch", check: "files and functions fit a screen", file: "bus/x.go",
		src: goFile("bus", longSwitch(maxCaseLines, maxAroundLines)),
	},
	{
		name: "a long switch with a long case", check: "files and functions fit a screen", file: "bus/x.go",
		src: goFile("bus", longSwitch(maxCaseLines+1, 0)), want: "f has 87 lines, at most 70",
	},
	{
		name: "a long flat switch in a long function", check: "files and functions fit a screen", file: "bus/x.go",
		src: goFile("bus", longSwitch(maxCaseLines, maxAroundLines+1)), want: "f has 81 lines, at most 70",
	},
	{
		name: "a skipped test", check: "tests test", file: "bus/x_test.go",
		src: goFile("bus", "import \"testing\"\n\nfunc TestX(t *testing.T) { t.Skip() }"), want: "a test is not skipped",
	},
	{
		name: "a suite that skips", check: "tests test", file: "test/conformance/x.go",
		src:  goFile("conformance", "import \"testing\"\n\nfunc Run(t *testing.T) { t.Skipf(\"no runtime\") }"),
		want: "a test is not skipped",
	},
	{
		name: "a sleeping test", check: "tests test", file: "bus/x_test.go",
		src: goFile("bus", "import \"time\"\n\nfunc wait() { time.Sleep(1) }"), want: "a test does not sleep",
	},
	{
		name: "a new top directory", check: "top directories are known", file: "pkg/x.go",
		src: goFile("pkg", ""), want: "pkg: no such directory in the architecture",
	},
	{
		name: "a replace", check: "the module can be installed", file: "go.mod",
		src: goMod + "\nreplace example.com/a => ./a\n", want: "go.mod: replaces example.com/a",
	},
	{
		name: "a requirement of the kubelet", check: "the module can be installed", file: "go.mod",
		src: goMod + "\nrequire k8s.io/kubernetes v1.37.1\n", want: "requires k8s.io/kubernetes",
	},
	{
		name: "a path of one machine", check: "paths exist for every reader", file: "docs/x.md",
		src: "# X\n\nRun `" + "/home" + "/me/journalet/bin/journalet`.\n", want: "docs/x.md:3: names /home" + "/me",
	},
	{
		name: "a container's own path", check: "paths exist for every reader", file: "docs/x.md",
		src: "State is in `/var/lib/journalet`, pods in https://example.com" + "/home" + "/pods.\n",
	},
	{
		name: "a document beside the checkout", check: "paths exist for every reader", file: "docs/x.md",
		src:  "See [the design](../../design/README.md).\n",
		want: "names ../../design/README.md, which is not in the repository",
	},
	{
		name: "a document that exists", check: "paths exist for every reader", file: "docs/x.md",
		src: "See [the module](../go.mod).\n",
	},
	{
		name: "a link to a document that is gone", check: "links lead somewhere", file: "deploy/x/README.md",
		src: "See\n[the lab](lab/README.md#settings).\n", want: "deploy/x/README.md:2: links to lab/README.md#settings",
	},
	{
		name: "a picture that does not exist", check: "links lead somewhere", file: "README.md",
		src: "![a terminal](docs/pods.svg)\n", want: "links to docs/pods.svg",
	},
	{
		name: "links that are no files, or code", check: "links lead somewhere", file: "docs/x.md",
		src: "[a](https://example.com/b) [c](#d) [module](../go.mod#L1)\n```\n[e](f)\n```\n",
	},
	{
		name: "a claim whose test is gone", check: "claims name tests that exist", file: "docs/SCOPE.md",
		src: "| restarts | done | `TestRestarts` |\n", want: "docs/SCOPE.md:1: names TestRestarts",
	},
	{
		name: "a claim whose scenario is gone", check: "claims name tests that exist", file: "docs/SCOPE.md",
		src: "Shown by `a_pod.txt`.\n", want: "names a_pod.txt: no such scenario in test/scenario/testdata",
	},
	{
		name: "a claim that names a path that is gone", check: "claims name tests that exist", file: "docs/SCOPE.md",
		src: "See `runtime/cri/gone.go`.\n", want: "names runtime/cri/gone.go",
	},
	{
		name: "claims that name what is there", check: "claims name tests that exist", file: "docs/SCOPE.md",
		src: "See `runtime/cri/doc.go`, `/etc/hosts`, `a b.txt/c`, `some/y` and `spec.x`.\n",
	},
})

func TestEachRuleRefusesWhatBreaksIt(t *testing.T) {
	for _, v := range violations {
		t.Run(v.name, func(t *testing.T) {
			dir := cleanTree(t)
			write(t, dir, v.file, v.src)
			found, err := checks[v.check](mustLoad(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case v.want == "" && len(found) > 0:
				t.Errorf("refused what is allowed: %v", found)
			case v.want != "" && len(found) != 1:
				t.Errorf("want one finding with %q, got %v", v.want, found)
			case v.want != "" && !strings.Contains(found[0].String(), v.want):
				t.Errorf("want %q in %q", v.want, found[0])
			}
		})
	}
}

func TestEveryRuleIsSeenToFail(t *testing.T) {
	for name := range checks {
		seen := false
		for _, v := range violations {
			seen = seen || v.check == name && v.want != ""
		}
		if !seen {
			t.Errorf("no violation shows %q at work", name)
		}
	}
}

func TestCleanTreeHasNoFindings(t *testing.T) {
	clean := mustLoad(t, cleanTree(t))
	for name, check := range checks {
		if found, err := check(clean); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestDeciderBuiltFromNATSIsFoundBehindAnotherPackage(t *testing.T) {
	found := checkReach(map[string]string{"fmt": "", "github.com/nats-io/nats.go/jetstream": "", module + "/messages": ""})
	if len(found) != 1 || !strings.Contains(found[0].text, "github.com/nats-io/nats.go/jetstream") {
		t.Errorf("got %v", found)
	}
}

func TestOtherModulesOfTheRepositoryKeepTheirOwnImports(t *testing.T) {
	dir := cleanTree(t)
	write(t, dir, "test/oracle/go.mod", "module example.com/oracle\n")
	write(t, dir, "test/oracle/main.go", goFile("main", `import _ "k8s.io/kubernetes/pkg/kubelet"`))
	if found := checkImports(mustLoad(t, dir)); len(found) > 0 {
		t.Errorf("got %v", found)
	}
}

// longSwitch is a function with a switch of too many lines, some lines beside it, and some in each case.
func longSwitch(inCase, around int) string {
	one := "\tcase \"x\":\n" + strings.Repeat("\t\tf(s)\n", inCase)
	return "func f(s string) {\n" + strings.Repeat("\n", around) + "\tswitch s {\n" + strings.Repeat(one, 17) + "\t}\n}"
}

const goMod = "module " + module + "\n\ngo 1.26.0\n"

// cleanTree makes a small checkout with a file in every layer.
func cleanTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	dirs := []string{"actors/pod", "bus", "cmd/journalet", "messages", "messages/journaletv1"}
	dirs = append(dirs, "runtime/agent", "runtime/cri",
		"runtime/host", "runtime/cri/pleg", "runtime/api/query", "runtime/sim")
	slices.Sort(dirs)
	for _, in := range dirs {
		pkg := filepath.Base(in)
		write(t, dir, in+"/doc.go", fmt.Sprintf("// Package %s is here to be checked.\npackage %s\n", pkg, pkg))
	}
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// goFile has its body from the second line on.
func goFile(pkg, body string) string {
	return "package " + pkg + "\n" + body + "\n"
}
