package oracle

import (
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/test/oracle/node"
	"github.com/journalet/journalet/test/oracle/pods"
)

// objectsCase is a case of a pod with what it refers to.
type objectsCase struct {
	Pod     map[string]any `json:"pod"`
	Objects *node.Objects  `json:"objects"`
}

// worldOfObjects returns the nodes of both sides for the pod of a case and what it refers to.
func (c *testCase) worldOfObjects() *world {
	var parsed objectsCase
	if yaml.Unmarshal([]byte(c.text), &parsed) != nil || parsed.Pod == nil {
		return nil
	}
	manifest, err := yaml.Marshal(parsed.Pod)
	check("marshal a pod", err)
	w := c.world(string(manifest))
	if w == nil {
		return nil
	}
	if parsed.Objects == nil {
		parsed.Objects = &node.Objects{}
	}
	w.ours.opts.Objects, w.theirs.opts.Objects = parsed.Objects, parsed.Objects
	return w
}

// generateEnv returns a pod whose variables refer to objects and files, and these.
func generateEnv(m *pods.Generator) string {
	p := m.Small()
	return podAnd(p, map[string]any{"objects": m.Env(p)})
}

// compareEnv compares the requests to the runtime for a pod whose variables refer to objects and files, and the errors
// if something is missing.
func compareEnv(c *testCase) {
	w := c.worldOfObjects()
	if w == nil {
		return
	}
	defer w.close()
	for _, s := range []side{w.ours, w.theirs} {
		s.writeFiles(w.parsed.Pod)
	}
	compareStarts(c, w)
}

// writeFiles writes the files of a case into the pod's emptyDir volumes.
func (s side) writeFiles(pod *corev1.Pod) {
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir == nil {
			continue
		}
		dir := filepath.Join(s.opts.RootDir, "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", v.Name)
		for name, text := range s.opts.Objects.Files {
			path := filepath.Join(dir, name)
			err := os.MkdirAll(filepath.Dir(path), 0o750)
			if to, link := strings.CutPrefix(text, node.LinkTo); link && err == nil {
				err = os.Symlink(to, path)
			} else if err == nil {
				err = os.WriteFile(path, []byte(text), 0o600)
			}
			check("write a file of a volume", err)
		}
	}
}

// readsMissingFile reports whether a container has a variable of a file that does not exist, and may do so.
func readsMissingFile(c *corev1.Container, objects *node.Objects) bool {
	for _, v := range c.Env {
		if v.ValueFrom == nil || v.ValueFrom.FileKeyRef == nil || objects == nil {
			continue
		}
		f := v.ValueFrom.FileKeyRef
		if f.Optional != nil && *f.Optional && f.Path == "missing" {
			return true
		}
	}
	return false
}
