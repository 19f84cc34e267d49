package oracle

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/pods"
)

// The node and the file of every case.
const (
	nodeName     = "node-1"
	manifestPath = "/etc/pods/pod.yaml"
)

//go:embed testdata
var testdata embed.FS

// keptIn returns a function that reads the files of a directory of testdata, by name.
func keptIn(dir string) func() map[string]string {
	return func() map[string]string {
		out := map[string]string{}
		entries, err := fs.ReadDir(testdata, path.Join("testdata", dir))
		check("read the hand-written cases", err)
		for _, e := range entries {
			data, err := fs.ReadFile(testdata, path.Join("testdata", dir, e.Name()))
			check("read a hand-written case", err)
			out[e.Name()] = string(data)
		}
		return out
	}
}

// text writes a pod as YAML, as its author would.
func text(pod *corev1.Pod) string {
	data, err := json.Marshal(pod)
	check("marshal a pod", err)
	tree := map[string]any{}
	check("unmarshal a pod", json.Unmarshal(data, &tree))
	delete(tree, "status")
	prune(tree)
	return toYAML(tree)
}

func toYAML(v any) string {
	data, err := yaml.Marshal(v)
	check("marshal a case", err)
	return string(data)
}

// podAnd writes a case of a pod and more keys.
func podAnd(p *corev1.Pod, more map[string]any) string {
	text := "pod:\n  " + indent2(text(p)) + "\n"
	if len(more) > 0 {
		text += toYAML(more)
	}
	return text
}

func indent2(s string) string { return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ") }

// prune removes the nulls that Kubernetes types leave, and the empty objects that no author would write.
func prune(tree map[string]any) {
	for key, v := range tree {
		switch v := v.(type) {
		case nil:
			delete(tree, key)
		case map[string]any:
			prune(v)
			if len(v) == 0 && (key == "resources" || key == "metadata") {
				delete(tree, key)
			}
		case []any:
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					prune(m)
				}
			}
		}
	}
}

// generateManifest returns a manifest. Three of four have mistakes.
func generateManifest(m *pods.Generator) string {
	m.Bad = pods.Pick(m, 0, 5, 20, 60)
	p := m.Pod()
	if m.Chance(40) {
		m.AddLifecycle(p)
	}
	if m.Chance(60) {
		m.AddObjects(p)
		m.AddWorld(p)
	}
	return text(p)
}

// accountWithToken is the service account that the node has a token of, in every namespace.
const accountWithToken = "with-token"

// compareDecode compares defaults and validation of manifests.
func compareDecode(c *testCase) {
	opts := manifest.Options{NodeName: nodeName,
		HasToken: func(_, account string) bool { return account == accountWithToken }}
	parsed, problems := manifest.Decode(manifestPath, []byte(c.text), opts)
	theirs := kubelet.Decode(manifestPath, []byte(c.text), nodeName)
	ours := pathsOf(problems)
	switch {
	case hasCode(problems, manifest.CodeNotYet):
		c.count("rejected as not carried out")
	case len(problems) == 0 && theirs.Pod != nil:
		c.count("accepted")
		if theirs.Static != "" {
			c.count("accepted with objects of the node")
			c.differs("reference of a static pod to "+kindOf(theirs.Static), "accepted", "rejected")
		}
		ours, theirs := tree(parsed[0].Pod), tree(theirs.Pod)
		for _, part := range []string{"apiVersion", "kind", "status"} {
			delete(ours, part) // the kubelet's decoder drops the types, and gives every pod the phase Pending
			delete(theirs, part)
		}
		// Another function of the kubelet sets this annotation, when it merges its sources.
		delete(ours["metadata"].(map[string]any)["annotations"].(map[string]any), manifest.ConfigSourceAnnotation)
		compareTrees(c.differs, "default", ours, theirs)
	default:
		c.count("rejected")
		if e, nameless := theirs.Missing(); nameless {
			// The kubelet stops at the missing name.
			c.differs("verdict on a pod without a name", ours[e] != "", true)
			return
		}
		if theirs.Static != "" && hasCode(problems, manifest.CodeStaticPod) {
			return // for both of them it needs the API server
		}
		comparePaths(c, ours, theirPaths(theirs))
	}
}

// kindOf returns "an object" for the kinds of objects that a node has as files.
func kindOf(static string) string {
	kind, _, _ := strings.Cut(static, " ")
	if slices.Contains([]string{"configmaps", "secrets", "serviceaccounts", "clustertrustbundles"}, kind) {
		return "an object"
	}
	return static
}

func hasCode(problems []manifest.Problem, code manifest.Code) bool {
	return slices.ContainsFunc(problems, func(p manifest.Problem) bool { return p.Code == code })
}

// pathsOf returns the rejected fields, each with its code and message.
func pathsOf(problems []manifest.Problem) map[string]string {
	out := map[string]string{}
	for _, p := range problems {
		out[alike(p.Field)] = string(p.Code) + ": " + p.Message
	}
	return out
}

// inexact are the paths that the kubelet, mostly, writes without an index or in another way, and how we compare them.
var inexact = []struct {
	path *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`(\.volumeMounts)\[\d+\](\.(?:subPath|subPathExpr|recursiveReadOnly|mountPropagation))$`), "$1$2"},
	{regexp.MustCompile(`(\.downwardAPI)\.items\[\d+\](.*)$`), "$1$2"},
	{regexp.MustCompile(`\.namespaces\[\d+\]$`), ".namespace"},
	{regexp.MustCompile(`^spec\.Host(PID|IPC)$`), "spec.host$1"},
	// A key that is in the selector of its term or constraint, too.
	{regexp.MustCompile(`((?:DuringExecution|topologySpreadConstraints)\[\d+\](?:\.podAffinityTerm)?)(\[\d+\])$`),
		"$1.matchLabelKeys$2"},
}

// alike returns the path of a field as both sides would write it.
func alike(path string) string {
	for _, p := range inexact {
		path = p.path.ReplaceAllString(path, p.as)
	}
	return path
}

// undecoded stands for the field of an error of the kubelet's decoder.
const undecoded = "?"

func theirPaths(d kubelet.Decoded) map[string]string {
	out := map[string]string{}
	for _, e := range d.Errors {
		out[alike(e.Field)] = e.ErrorBody()
	}
	if len(out) == 0 && d.Err != nil {
		out[undecoded] = d.Err.Error()
	}
	return out
}

var indexes = regexp.MustCompile(`\[[^\]]*\]`)

// withoutIndexes removes the indexes of lists from a path, and the keys of maps except the kubelet's own keys and keys
// of cgroups. Init containers count as containers.
func withoutIndexes(path string) string {
	path = strings.Replace(path, "spec.initContainers[", "spec.containers[", 1)
	return indexes.ReplaceAllStringFunc(path, func(index string) string {
		if strings.HasPrefix(index, "[kubernetes.io/config.") || strings.HasPrefix(index, "[memory.") {
			return index
		}
		return "[]"
	})
}

// comparePaths compares the rejected fields of both sides. Two paths are equal if one is below the other: ours name the
// part of a field where they can. Only the kubelet also reports fields that defaults copied from a mistake.
func comparePaths(c *testCase, ours, theirs map[string]string) {
	var author any
	_ = yaml.Unmarshal([]byte(c.text), &author) // invalid YAML has no fields
	if _, unreadable := theirs[undecoded]; unreadable && len(ours) > 0 {
		return // the kubelet stops at the first value of a wrong type
	}
	for _, at := range sortedKeys(ours) {
		key := withoutIndexes(at)
		if strings.HasPrefix(ours[at], string(manifest.CodeUnknownField)) {
			key = "a field that does not exist"
		}
		if !covered(at, theirs) {
			c.differs("only we reject "+key, ours[at], cmp.Or(lines(theirs), "accepted"))
		}
	}
	for _, at := range sortedKeys(theirs) {
		if !covered(at, ours) && (len(ours) == 0 || written(author, at) || strings.HasPrefix(theirs[at], "Required")) {
			c.differs("only the kubelet rejects "+withoutIndexes(at), cmp.Or(lines(ours), "accepted"), theirs[at])
		}
	}
}

func covered(at string, by map[string]string) bool {
	for have := range by {
		if below(at, have) || below(have, at) {
			return true
		}
	}
	return false
}

// below reports whether a path is equal to another one or below it.
func below(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// written reports whether the author's manifest has something at a path.
func written(author any, at string) bool {
	have := map[string]string{}
	if root, ok := author.(map[string]any); ok {
		flatten("", root, have)
	}
	for path := range have {
		if below(path, at) {
			return true
		}
	}
	return false
}

func lines(m map[string]string) string {
	var out []string
	for _, key := range sortedKeys(m) {
		out = append(out, key+": "+m[key])
	}
	return strings.Join(out, "\n")
}

// tree returns an object as JSON's types.
func tree(object any) map[string]any {
	data, err := json.Marshal(object)
	check("marshal an object", err)
	return parseTree(string(data))
}

func parseTree(data string) map[string]any {
	out := map[string]any{}
	check("unmarshal an object", json.Unmarshal([]byte(data), &out))
	return out
}

// compareTrees compares every leaf, and passes each leaf that is unequal to differs.
func compareTrees(differs func(what string, ours, theirs any), what string, ours, theirs map[string]any) {
	o, t := map[string]string{}, map[string]string{}
	flatten("", ours, o)
	flatten("", theirs, t)
	all := maps.Clone(o)
	maps.Copy(all, t)
	for _, at := range sortedKeys(all) {
		if o[at] != t[at] {
			differs(what+" "+withoutIndexes(at), at+" = "+o[at], at+" = "+t[at])
		}
	}
}

func flatten(at string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			next := strings.TrimPrefix(at+"."+key, ".")
			if strings.ContainsAny(key, "./[]") {
				next = at + "[" + key + "]"
			}
			flatten(next, child, into)
		}
	case []any:
		for i, child := range v {
			flatten(fmt.Sprintf("%s[%d]", at, i), child, into)
		}
	case nil:
	default:
		into[at] = fmt.Sprint(v)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
