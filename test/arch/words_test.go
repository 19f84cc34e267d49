package arch

import "strings"

const (
	wordsRule    = "words are the field's"
	columnsRule  = "lines end by column 120"
	commentsRule = "comments begin with names"
	namesRule    = "references name what exists"
)

// languageViolations are those of the rules about language.
var languageViolations = []violation{
	{
		name: "an identifier with a word of ours", check: wordsRule, file: "bus/x.go",
		src: goFile("bus", "const x, askedAgain = 1, 2"), want: `bus/x.go:2: "asked": say request`,
	},
	{
		name: "a phrase that goes over two lines of a comment", check: wordsRule, file: "bus/x.go",
		src:  goFile("bus", "// A comment that\n// tells\n// whether.\nvar x int"),
		want: `bus/x.go:3: "tells whether": say reports whether`,
	},
	{
		name: "a message with a word of ours", check: wordsRule, file: "bus/x.go",
		src: goFile("bus", "var x = \"a folder\""), want: `bus/x.go:2: "folder": say directory`,
	},
	{
		name: "a raw string with a word of ours", check: wordsRule, file: "bus/x.go",
		src: goFile("bus", "var x = `a\nslip of the pen`"), want: `bus/x.go:3: "slip of the pen": say typo`,
	},
	{
		name: "a column with a name of ours", check: wordsRule, file: "bus/x.go",
		src: goFile("bus", "var x = \"asked\""), want: `bus/x.go:2: "asked": say request`,
	},
	{
		name: "a comment that names what has a word of ours", check: wordsRule, file: "bus/x.go",
		src: goFile("bus", "// MadeContainer is `x`.\nvar x int"), want: `bus/x.go:2: "Made": say create`,
	},
	{
		name: "a file with a word of ours", check: wordsRule, file: "bus/told.go",
		src: goFile("bus", ""), want: `bus/told.go: "told": say report`,
	},
	{
		name: "a proto field with a word of ours", check: wordsRule, file: "proto/x.proto",
		src: "message M { // of a pod\n  string let_in = 1;\n}\n", want: `proto/x.proto:2: "let in": say admit`,
	},
	{
		name: "a proto comment with a word of ours", check: wordsRule, file: "proto/x.proto",
		src: "// It goes\n// on.\nmessage M {}\n", want: `proto/x.proto:1: "goes on": say continue`,
	},
	{
		name: "a script with a word of ours", check: wordsRule, file: "deploy/x.sh",
		src: "#!/bin/sh\necho \"the rights\"\n", want: `deploy/x.sh:2: "rights": say permissions`,
	},
	{
		name: "a document with a word of ours", check: wordsRule, file: "docs/x.md",
		src: "# X\n\nA pod is\nturned away.\n", want: `docs/x.md:4: "turned away": say reject`,
	},
	{
		name: "a scenario with a word of ours", check: wordsRule, file: "test/scenario/testdata/x.txt",
		src: "# Nobody's pod.\n\nstart\n", want: `test/scenario/testdata/x.txt:1: "Nobody's": say orphan`,
	},
	{
		name: "words that mean something else", check: wordsRule, file: "bus/x.go",
		src: goFile("bus", "// Names that make sure of one thing: `make test`, LookPath.\nvar remaking = make([]int, 1)"),
	},
	{
		name: "an example of words that we do not use", check: wordsRule, file: "docs/x.md",
		src: "Write \"it was rejected\", not \"it was turned away\".\n",
	},
	{
		name: "the list of words", check: wordsRule, file: "docs/GLOSSARY.md",
		src: "Not told, but reported.\n",
	},
	{
		name: "a wide line", check: columnsRule, file: "bus/x.go",
		src: goFile("bus", "// "+strings.Repeat("ü", 118)), want: "bus/x.go:2: 121 columns, at most 120",
	},
	{
		name: "lines that are just narrow enough, or data", check: columnsRule, file: "bus/x.go",
		src: goFile("bus", "// "+strings.Repeat("ü", 117)+"\nvar x = `\n"+strings.Repeat("x", 200)+"`"),
	},
	{
		name: "a wide row", check: columnsRule, file: "docs/x.md",
		src: "| " + strings.Repeat("x", 600) + " |\n", want: "docs/x.md:1: 604 columns, at most 600",
	},
	{
		name: "a wide paragraph", check: columnsRule, file: "docs/x.md",
		src: strings.Repeat("x ", 61), want: "docs/x.md:1: 122 columns, at most 120",
	},
	{
		name: "an address that cannot be wrapped", check: columnsRule, file: "docs/x.md",
		src: "See https://example.com/" + strings.Repeat("x", 120) + "\n",
	},
	{
		name: "an exported name without a comment", check: commentsRule, file: "bus/x.go",
		src: goFile("bus", "const X = 1"), want: "bus/x.go:2: X is exported and has no comment",
	},
	{
		name: "a comment that begins with another word", check: commentsRule, file: "bus/x.go",
		src:  goFile("bus", "// T is t.\ntype T int\n\n// Returns t.\nfunc (t T) X() T { return t }"),
		want: "bus/x.go:6: the comment of X begins with Returns",
	},
	{
		name: "a comment that was left behind", check: commentsRule, file: "bus/x.go",
		src:  goFile("bus", "// oneThing is x.\nfunc another() {}\n\nfunc oneThing() {}"),
		want: "bus/x.go:3: the comment of another begins with oneThing, another name of the package",
	},
	{
		name: "names whose comments are in order", check: commentsRule, file: "bus/x.go",
		src: goFile("bus", "// Two of them.\nconst (\n\tX = 1\n\tY = 2\n)\n\n// A T is t.\n"+
			"type T int\n\ntype u int\n\nfunc (u) X() {}"),
	},
	{
		name: "a comment that names a file which is gone", check: namesRule, file: "bus/x.go",
		src: goFile("bus", "// See\n// gone.go.\nvar x int"), want: "bus/x.go:3: names gone.go: no such file",
	},
	{
		name: "a comment that names a decision record which was never written", check: namesRule, file: "bus/x.go",
		src: goFile("bus", "// By ADR 099.\nvar x int"), want: "bus/x.go:2: names ADR 099: no such decision record",
	},
	{
		name: "a comment that names a function which is gone", check: namesRule, file: "bus/x.go",
		src: goFile("bus", "// As oldName does.\nvar x int"), want: "bus/x.go:2: names oldName: no code has this name",
	},
	{
		name: "a comment that names a member which is gone", check: namesRule, file: "bus/x.go",
		src:  goFile("bus", "type t struct{ Old int }\n\n// As bus.Old.\nvar x t"),
		want: "bus/x.go:4: names bus.Old: bus of ours has no Old",
	},
	{
		name: "a proto comment that names a message which is gone", check: namesRule, file: "proto/x.proto",
		src: "// See PodGone.\nmessage M {}\n", want: "proto/x.proto:1: names PodGone: no code has this name",
	},
	{
		name: "a document that names a target which is gone", check: namesRule, file: "docs/x.md",
		src: "Run `make gone SEEDS=1`.\n", want: "docs/x.md:1: names make gone: no such target in the Makefile",
	},
	{
		name: "a document that names a file which is gone", check: namesRule, file: "docs/x.md",
		src: "See `pod/gone.go`.\n", want: "docs/x.md:1: names pod/gone.go: no such file",
	},
	{
		name: "names that are there, or of others", check: namesRule, file: "bus/x.go",
		src: goFile("bus", "type t struct{ Is int }\n\n"+
			"// As t.Is, doc.go, cri/doc.go, bus.thisOne, testdata/*.go and the kubelet's getPhase.\n"+
			"func (t) thisOne() {}"),
	},
}
