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

// keptIn are the files of a folder of testdata by name.
func keptIn(dir string) func() map[string]string {
	return func() map[string]string {
		out := map[string]string{}
		entries, err := fs.ReadDir(testdata, path.Join("testdata", dir))
		if err != nil {
			panic(fmt.Sprintf("the hand-kept cases of %s: %v", dir, err))
		}
		for _, e := range entries {
			data, err := fs.ReadFile(testdata, path.Join("testdata", dir, e.Name()))
			if err != nil {
				panic(fmt.Sprintf("the hand-kept case %s: %v", e.Name(), err))
			}
			out[e.Name()] = string(data)
		}
		return out
	}
}

// text writes a pod as its author would.
func text(pod *corev1.Pod) string {
	data, err := json.Marshal(pod)
	if err != nil {
		panic(fmt.Sprintf("a made-up pod does not marshal: %v", err))
	}
	tree := map[string]any{}
	if err := json.Unmarshal(data, &tree); err != nil {
		panic(fmt.Sprintf("a made-up pod does not unmarshal: %v", err))
	}
	delete(tree, "status")
	prune(tree)
	out, err := yaml.Marshal(tree)
	if err != nil {
		panic(fmt.Sprintf("a made-up pod is no YAML: %v", err))
	}
	return string(out)
}

// prune takes out the nulls that Kubernetes types leave behind, and the empty objects that nobody would write.
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

// makeManifest makes up a manifest; of four, three have mistakes in them.
func makeManifest(m *pods.Maker) string {
	m.Bad = pods.Pick(m, 0, 5, 20, 60)
	p := m.Pod()
	if m.Chance(40) {
		m.AddLifecycle(p)
	}
	return text(p)
}

// compareDecode holds manifests to the kubelet's defaults and validation.
func compareDecode(c *testCase) {
	opts := manifest.Options{NodeName: nodeName}
	parsed, problems := manifest.Decode(manifestPath, []byte(c.text), opts)
	theirs := kubelet.Decode(manifestPath, []byte(c.text), nodeName)
	ours := pathsOf(problems)
	switch {
	case hasCode(problems, manifest.CodeNotYet):
		c.count("refused as not carried out")
	case len(problems) == 0 && theirs.Pod != nil:
		c.count("accepted")
		ours, theirs := tree(parsed[0].Pod), tree(theirs.Pod)
		for _, part := range []string{"apiVersion", "kind", "status"} {
			delete(ours, part) // the kubelet's decoder drops the types, and gives every pod the phase Pending
			delete(theirs, part)
		}
		// Its source is noted by another of the kubelet's functions, when it merges what its sources say.
		delete(ours["metadata"].(map[string]any)["annotations"].(map[string]any), manifest.ConfigSourceAnnotation)
		compareTrees(c, "default", ours, theirs)
	default:
		c.count("refused")
		if e, nameless := theirs.Missing(); nameless {
			// The kubelet looks no further than at the missing name.
			c.differs("verdict on a pod without a name", ours[e] != "", true)
			return
		}
		if theirs.Static != "" {
			c.differs("verdict on what needs the API server", hasCode(problems, manifest.CodeStaticPod), true)
			return
		}
		comparePaths(c, ours, theirPaths(theirs))
	}
}

func hasCode(problems []manifest.Problem, code manifest.Code) bool {
	return slices.ContainsFunc(problems, func(p manifest.Problem) bool { return p.Code == code })
}

// pathsOf are the fields that were refused, each with what else was said.
func pathsOf(problems []manifest.Problem) map[string]string {
	out := map[string]string{}
	for _, p := range problems {
		out[p.Field] = string(p.Code) + ": " + p.Message
	}
	return out
}

func theirPaths(d kubelet.Decoded) map[string]string {
	out := map[string]string{}
	for _, e := range d.Errors {
		out[e.Field] = e.ErrorBody()
	}
	if len(out) == 0 && d.Err != nil {
		out["?"] = d.Err.Error()
	}
	return out
}

var indexes = regexp.MustCompile(`\[[^\]]*\]`)

// withoutIndexes makes a path the same for each element of a list, and for each key of a map but the kubelet's own
// and those of cgroups. Init containers count as containers.
func withoutIndexes(path string) string {
	path = strings.Replace(path, "spec.initContainers[", "spec.containers[", 1)
	return indexes.ReplaceAllStringFunc(path, func(index string) string {
		if strings.HasPrefix(index, "[kubernetes.io/config.") || strings.HasPrefix(index, "[memory.") {
			return index
		}
		return "[]"
	})
}

// comparePaths holds the refused fields of both sides together. Two paths are one where one lies below the other: ours say
// where they can which part of a field it is. What defaults made of a mistake is told by the kubelet again and by us not.
func comparePaths(c *testCase, ours, theirs map[string]string) {
	var author any
	_ = yaml.Unmarshal([]byte(c.text), &author) // what is no YAML has no fields either
	for _, at := range sortedKeys(ours) {
		if !covered(at, theirs) {
			c.differs("only we refuse "+withoutIndexes(at), ours[at], cmp.Or(lines(theirs), "accepted"))
		}
	}
	for _, at := range sortedKeys(theirs) {
		if !covered(at, ours) && (len(ours) == 0 || written(author, at) || strings.HasPrefix(theirs[at], "Required")) {
			c.differs("only the kubelet refuses "+withoutIndexes(at), cmp.Or(lines(ours), "accepted"), theirs[at])
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

// below tells whether a path is another one or leads on from it.
func below(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// written tells whether the author wrote something at a path.
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

// tree is an object as JSON has it.
func tree(object any) map[string]any {
	data, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("%T does not marshal: %v", object, err))
	}
	return parseTree(string(data))
}

func parseTree(data string) map[string]any {
	out := map[string]any{}
	if err := json.Unmarshal([]byte(data), &out); err != nil {
		panic(fmt.Sprintf("an object's JSON does not parse: %v", err))
	}
	return out
}

// compareTrees reports every leaf that is not the same.
func compareTrees(c *testCase, what string, ours, theirs map[string]any) {
	o, t := map[string]string{}, map[string]string{}
	flatten("", ours, o)
	flatten("", theirs, t)
	all := maps.Clone(o)
	maps.Copy(all, t)
	for _, at := range sortedKeys(all) {
		if o[at] != t[at] {
			c.differs(what+" "+withoutIndexes(at), at+" = "+o[at], at+" = "+t[at])
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
