package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	yamldocs "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// File is one file of the directory, as a node gets it.
type File struct {
	// Name is its path below the directory.
	Name string
	// Text is a manifest of pods, and of objects that pods refer to. Templates of workloads are written as pods. It is
	// empty if the file has nothing for a node.
	Text []byte
	// Skipped are the kinds that only a cluster has.
	Skipped []string
}

// maxFileBytes bounds a file of the directory. Larger than any manifest that a person wrote.
const maxFileBytes = 10 << 20

// Read reads the manifests below a directory, in the order of their names.
func Read(dir string) ([]File, error) {
	var out []File
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		if info, err := e.Info(); err != nil || info.Size() > maxFileBytes {
			return fmt.Errorf("%s: %w", path, errors.Join(err, errors.New("more than 10 MiB")))
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		f := split(data)
		f.Name = name
		out = append(out, f)
		return err
	})
	return out, err
}

// forNodes are the kinds that a node without a cluster reads.
var forNodes = []string{"Pod", "PodList", "ConfigMap", "Secret", "ServiceAccount", "ClusterTrustBundle"}

// templates hold the place of the pod template in each kind of workload.
var templates = map[string][]string{
	"Deployment": {"spec", "template"}, "DaemonSet": {"spec", "template"}, "StatefulSet": {"spec", "template"},
	"ReplicaSet": {"spec", "template"}, "ReplicationController": {"spec", "template"}, "Job": {"spec", "template"},
	"CronJob": {"spec", "jobTemplate", "spec", "template"}, "PodTemplate": {"template"},
}

// split keeps of a file what is for a node. A document that is not YAML stays: the node reports it.
func split(data []byte) File {
	var f File
	var kept [][]byte
	changed := false
	docs := yamldocs.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				kept = append(kept, data)
			}
			break
		}
		text, skipped := forNode(doc)
		changed = changed || !bytes.Equal(text, doc)
		if skipped != "" {
			f.Skipped = append(f.Skipped, skipped)
		} else if len(text) > 0 {
			kept = append(kept, text)
		}
	}
	f.Text = data
	if changed {
		f.Text = bytes.Join(kept, []byte("\n---\n"))
	}
	return f
}

// Pods returns the documents of a file that are one pod each. They begin with a comment: the kubelet takes YAML that
// begins with a brace for JSON.
func (f *File) Pods() [][]byte {
	var out [][]byte
	docs := yamldocs.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.Text)))
	for {
		doc, err := docs.Read()
		if err != nil {
			return out
		}
		var tree struct{ Kind string }
		if yaml.Unmarshal(doc, &tree) == nil && tree.Kind == "Pod" {
			out = append(out, append([]byte("# a pod\n"), doc...))
		}
	}
}

// forNode returns a document as a node gets it, or its kind if it is not for a node.
func forNode(doc []byte) (text []byte, skipped string) {
	var tree map[string]any
	if yaml.Unmarshal(doc, &tree) != nil {
		return doc, ""
	}
	kind, _ := tree["kind"].(string)
	if tree == nil {
		return nil, ""
	}
	if kind == "List" {
		return list(tree)
	}
	if path, is := templates[kind]; is {
		if pod := podOf(tree, path); pod != nil {
			return toYAML(pod), ""
		}
	}
	if slices.Contains(forNodes, kind) || kind == "" {
		return doc, ""
	}
	return nil, kind
}

// list returns the items of a List that are for a node, one document each.
func list(tree map[string]any) (text []byte, skipped string) {
	items, _ := tree["items"].([]any)
	var docs [][]byte
	var others []string
	for _, item := range items {
		data, err := json.Marshal(item)
		if err != nil {
			continue
		}
		one, kind := forNode(data)
		if kind != "" {
			others = append(others, kind)
			continue
		}
		docs = append(docs, one)
	}
	if len(docs) == 0 {
		return nil, strings.Join(others, ", ")
	}
	return bytes.Join(docs, []byte("\n---\n")), ""
}

// podOf returns the pod of a workload's template, with the workload's name and namespace; nil if path leads to no
// template.
func podOf(workload map[string]any, path []string) map[string]any {
	at := workload
	for _, step := range path {
		next, ok := at[step].(map[string]any)
		if !ok {
			return nil
		}
		at = next
	}
	meta, _ := at["metadata"].(map[string]any)
	workloadMeta, _ := workload["metadata"].(map[string]any)
	pod := map[string]any{"name": "workload"}
	for _, part := range []string{"labels", "annotations"} {
		if v, has := meta[part]; has {
			pod[part] = v
		}
	}
	for _, part := range []string{"name", "namespace"} {
		if v, has := workloadMeta[part]; has {
			pod[part] = v
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": at["spec"]}
}

func toYAML(v any) []byte {
	data, err := yaml.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a tree of YAML cannot be written: %v", err)) // it was read as such
	}
	return data
}
