package corpus

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

// dir is testdata unless `make corpus` names another.
var dir = flag.String("corpus.dir", "testdata", "the directory of manifests to measure")

// TestCorpusIsJudged reports what a node without a cluster accepts of the directory. Every file gets a verdict.
func TestCorpusIsJudged(t *testing.T) {
	verdicts := judged(t)
	t.Log("\n" + Report(verdicts))
	for _, v := range verdicts {
		if len(v.Text) > 0 && v.Accepted() && !v.WithToken {
			t.Errorf("%s is accepted without a token, and refused with one", v.Name)
		}
	}
}

func judged(t *testing.T) []Verdict {
	t.Helper()
	files, err := Read(*dir)
	must.OK(t, err)
	if len(files) == 0 {
		t.Fatalf("%s has no manifests: name a directory with -corpus.dir", *dir)
	}
	var all []Verdict
	for _, f := range files {
		all = append(all, Judge(f))
	}
	return all
}

func TestFilesAreReadForANode(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: prod}\nspec:\n" +
			"  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: busybox}]}\n" +
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
		"list.json": `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": {"name": "c"}}, {"apiVersion": "v1", "kind": "Service"}]}`,
		"template.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: {{ .Name }}}\n",
		"claim.yaml":    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\n",
		"notes.txt":     "no manifest",
	} {
		must.OK(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	files, err := Read(root)
	must.OK(t, err)
	found := map[string]Verdict{}
	for _, f := range files {
		found[f.Name] = Judge(f)
	}
	web := found["deployment.yaml"]
	if len(found) != 4 || len(web.Decoded) != 1 || len(web.Skipped) != 1 || web.Skipped[0] != "Service" {
		t.Fatalf("got %d files, and the Deployment as %+v", len(found), web)
	}
	if p := web.Decoded[0]; p.Name != "web-"+nodeName || p.Namespace != "prod" || p.Labels["app"] != "web" {
		t.Errorf("got %d files, and the Deployment as %+v", len(found), web)
	}
	if c := found["list.json"]; !c.Accepted() || len(c.Text) == 0 {
		t.Errorf("the ConfigMap of a list: %v in %s", c.Problems, c.Text)
	}
	if c := found["claim.yaml"]; len(c.Text) > 0 || c.Skipped[0] != "PersistentVolumeClaim" {
		t.Errorf("a kind of a cluster: %q, skipped %v", c.Text, c.Skipped)
	}
	if p := found["template.yaml"].Problems; len(p) == 0 || p[0].Code != manifest.CodeSyntax {
		t.Errorf("a template: %v", p)
	}
}

type noHost struct{}

func (noHost) Path(corev1.HostPathType) string { return "/elsewhere" }

func TestRunnablePodKeepsItsVolumesAndIsAccepted(t *testing.T) {
	const text = `
apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {kubernetes.io/config.source: x}}
spec:
  nodeSelector: {disk: ssd}
  securityContext: {runAsNonRoot: true, fsGroup: 5}
  volumes:
  - {name: h, hostPath: {path: /etc}}
  - {name: c, configMap: {name: conf, items: [{key: k, path: f}]}}
  - {name: s, secret: {secretName: cert}}
  initContainers: [{name: i, image: example.com/i, command: [x]}]
  containers:
  - name: c
    image: example.com/c
    ports: [{containerPort: 80, hostPort: 80}]
    resources: {requests: {cpu: 1000}}
    livenessProbe: {httpGet: {port: 80}}
    env: [{name: A, valueFrom: {secretKeyRef: {name: cert, key: crt}}}]
    volumeMounts: [{name: h, mountPath: /h}, {name: c, mountPath: /c}, {name: s, mountPath: /s, subPath: key}]
`
	v := Judge(File{Name: "a.yaml", Text: []byte(text)})
	p := Runnable(v.Decoded[0], "m0", "busybox", noHost{})
	c := p.Spec.Containers[0]
	if p.Spec.Volumes[0].HostPath.Path != "/elsewhere" || c.Image != "busybox" || c.LivenessProbe != nil ||
		c.Ports != nil || *c.SecurityContext.RunAsUser != unprivileged ||
		len(c.VolumeMounts) != 3 || *p.Spec.SecurityContext.FSGroup != 5 {
		t.Errorf("got %+v", p.Spec)
	}
	objects := Objects{}
	objects.Add(p)
	conf, cert := objects["ConfigMap default/conf"], objects["Secret default/cert"]
	if len(objects) != 2 || conf.Data["k"] == "" || cert.Data["crt"] == "" || cert.Data["key"] == "" {
		t.Errorf("objects %v", objects)
	}
	again := Judge(File{Name: "b.yaml", Text: []byte(objects.Manifest() + "---\n" + string(toYAML(p)))})
	if !again.Accepted() || len(again.Decoded) != 1 ||
		!strings.HasSuffix(again.Decoded[0].Name, "-"+nodeName) {
		t.Errorf("not accepted: %v", again.Problems)
	}
}
