package manifest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	k8syaml "sigs.k8s.io/yaml"

	"github.com/journalet/journalet/test/must"
)

const fuzzNode = "node1"

// lineBreak matches YAML's line breaks.
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

var manifestInput = regexp.MustCompile(`(?ms)^(?:decode|canonical)[^\n]*\n(.*?)^----$`)

// FuzzDecode checks for any bytes that Decode does not panic, costs no more time and memory than they justify, returns
// equal results twice, that every problem has a place and a message, and that pods are canonical, by Load and by
// decoding them again.
func FuzzDecode(f *testing.F) {
	manifests, err := filepath.Glob("testdata/manifests/*")
	if err != nil || len(manifests) == 0 {
		f.Fatal("no manifests to begin with: ", err)
	}
	for _, file := range manifests {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, m := range manifestInput.FindAllSubmatch(text, -1) {
			f.Add(m[1])
		}
	}
	for _, text := range costly {
		f.Add([]byte(text(4 << 10)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkCost(t, data)
		opts := Options{NodeName: fuzzNode}
		pods, problems := Decode("fuzz.yaml", data, opts)
		lines := 1 + len(lineBreak.FindAll(data, -1))
		for _, p := range problems {
			if p.Path != "fuzz.yaml" || p.Message == "" || p.Code == "" || p.Remedy == "" && p.Code != CodeWrongType ||
				p.Line < 0 || p.Line > lines {
				t.Errorf("incomplete problem %+v", p)
			}
		}
		for _, p := range pods {
			checkCanonical(t, p, opts)
		}
		again, problemsAgain := Decode("fuzz.yaml", data, opts)
		if len(again) != len(pods) || len(problemsAgain) != len(problems) {
			t.Fatalf("%d pods and %d problems, then %d and %d", len(pods), len(problems), len(again), len(problemsAgain))
		}
		for i := range problems {
			if problems[i] != problemsAgain[i] {
				t.Errorf("problem %v, then %v", problems[i], problemsAgain[i])
			}
		}
		for i := range pods {
			if pods[i].Digest != again[i].Digest {
				t.Errorf("pod %d: digest %s, then %s", i, pods[i].Digest, again[i].Digest)
			}
		}
	})
}

// FuzzTree compares the tree of a document with the result of kubectl's and the API server's decoder.
func FuzzTree(f *testing.F) {
	for _, text := range []string{
		"a: yes", "a: [on, Off, n, Y, ~, null, Null, '', x]", "a: [0777, 0o7, 0x1F, 0b11, 1_000, +1, -0, 1e3, .5, 1., 1.0]",
		"a: [2001-01-01, 12:30, 1.2.3, 0x, 1e, -, --, '5', \"5\"]", "1: a\ntrue: b\n1.5: c",
		"a: &x {b: 1}\nc: {<<: *x, b: 2}\nd: *x", "a: |\n  x\n  y\nb: >-\n  x\n  y", "{\"a\": 1.0, \"b\": \"\\u00e9\"}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("---")) || bytes.ContainsAny(data, "!") {
			return // several documents, or a lone "!", which the parser that keeps lines does not return
		}
		docs, fault := parse(data)
		theirs, err := k8syaml.YAMLToJSONStrict(data)
		if fault != nil || err != nil || len(docs) != 1 || docs[0].fault != nil {
			return
		}
		var a, b any
		ours := docs[0].root.appendJSON(nil)
		if err := json.Unmarshal(ours, &a); err != nil {
			t.Fatalf("not JSON: %v: %s", err, ours)
		}
		if err := json.Unmarshal(theirs, &b); err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%q is\n%s\nthere %s (%v)", data, ours, theirs, err)
		}
	})
}

func checkCanonical(t *testing.T, p Parsed, opts Options) {
	loaded, err := Load(p.Canonical)
	must.OK(t, err)
	// Decoding adds the node's suffix again; everything else must be unchanged.
	loaded.Name = strings.TrimSuffix(loaded.Name, "-"+opts.NodeName)
	data, _, err := canonical(loaded)
	must.OK(t, err)
	again, problems := Decode("again.json", data, opts)
	if len(again) != 1 || len(problems) != 0 {
		t.Fatalf("canonical bytes are refused: %v\n%s", problems, p.Canonical)
	}
	if again[0].Digest != p.Digest {
		t.Errorf("decoding the canonical bytes gives\n%s\nwas\n%s", again[0].Canonical, p.Canonical)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	many := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n" +
		strings.Repeat("  - {}\n", 2*MaxProblems)
	_, problems := Decode("p", []byte(many), Options{NodeName: fuzzNode})
	if len(problems) != MaxProblems+1 || problems[MaxProblems].Code != CodeTooMany {
		t.Errorf("%d problems, the last %v", len(problems), problems[len(problems)-1])
	}
}

func TestValuesNeverEnterProblemsOrWarnings(t *testing.T) {
	const canary = "hunter2"
	for _, env := range []string{
		"{name: A, value: hunter2, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}",
		"{name: A, value: {hunter2: x}}", "{name: A, value: [hunter2]}",
		"{name: A, value: hunter2}, {name: A, value: hunter2}",
		"{name: A=, value: hunter2}",
	} {
		pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {a: hunter2, 'b ': hunter2}}\nspec:\n" +
			"  containers:\n  - {name: c, command: [hunter2], args: hunter2, env: [" + env + "]}\n"
		for _, doc := range []string{
			pod, strings.ReplaceAll(pod, ", args: hunter2", ""), strings.ReplaceAll(pod, "]}\n", ""),
		} {
			_, problems := Decode("p", []byte(doc), Options{NodeName: fuzzNode})
			if len(problems) == 0 {
				t.Errorf("no problem in %s", doc)
			}
			for _, p := range problems {
				if strings.Contains(p.Error(), canary) {
					t.Error(p)
				}
			}
		}
	}
}

func TestBadByteHasItsLine(t *testing.T) {
	for _, bad := range []string{"\xff", "\x01", "\x7f"} {
		_, problems := Decode("p", []byte("apiVersion: v1\nkind: Pod\n# "+bad+"\n"), Options{NodeName: fuzzNode})
		if len(problems) != 1 || problems[0].Code != CodeSyntax || problems[0].Line != 3 {
			t.Errorf("%q: %v", bad, problems)
		}
	}
}
