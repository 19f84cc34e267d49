//go:build attack

package attack

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a manifest holds, and what a manifest directory and a URL serve.

// nested is a JSON document of as many open arrays as fit a manifest.
func nested() []string { return []string{`{"a":`, strings.Repeat("[", 6_000_000)} }

func TestNestedJSON(t *testing.T) {
	attack{begin: func(g *target) { g.write("x.json", nested()...) }, restart: true}.run(t)
}

func TestAliasesThatMultiply(t *testing.T) {
	attack{
		begin: func(g *target) {
			head := "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: x\n    image: x\n    args: "
			g.write("x.yaml", head, `[&a "`, strings.Repeat("x", 64<<10), `"`, strings.Repeat(", *a", 400_000), "]\n")
			laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
			for i := range 20 {
				ten := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ",")
				laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, ten)
			}
			g.write("laughs.yaml", laughs)
		},
		restart: true,
	}.run(t)
}

func TestBrokenDocuments(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.write("a.yaml", strings.Repeat("a: b: c\n---\n", 87_000))
			g.write("b.yaml", strings.Repeat("---\na\n", 170_000))
		},
		restart: true,
	}.run(t)
}

func TestEnvironmentThatMultiplies(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.put(node.Pod("tenfold", node.Image, node.Idle, func(p *corev1.Pod) {
				env := []corev1.EnvVar{{Name: "A0", Value: strings.Repeat("x", 10)}}
				for i := range 9 {
					env = append(env, corev1.EnvVar{
						Name: fmt.Sprintf("A%d", i+1), Value: strings.Repeat(fmt.Sprintf("$(A%d)", i), 10),
					})
				}
				p.Spec.Containers[0].Env = env
			}))
			g.put(node.Pod("unclosed", node.Image, node.Idle, func(p *corev1.Pod) {
				p.Spec.Containers[0].Args = []string{strings.Repeat("$(", 500_000)}
			}))
		},
		restart: true,
		check: func(g *target) {
			g.await("tenfold", "waiting with a reason", func(p *corev1.Pod) bool {
				w := node.Container(p, "main").State.Waiting
				return w != nil && w.Reason == "CreateContainerConfigError" || p.Status.Phase == corev1.PodFailed
			})
		},
	}.run(t)
}

func TestHooksOfNineMebibytes(t *testing.T) {
	attack{
		begin: func(g *target) {
			for i := range 2 {
				g.put(node.Pod(fmt.Sprintf("attacker-%d", i), node.Image, node.Idle, func(p *corev1.Pod) {
					p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
						Exec: &corev1.ExecAction{Command: []string{"true", strings.Repeat("x", 9<<20)}},
					}}
				}))
			}
		},
		restart: true,
	}.run(t)
}

func TestUIDLongerThanTheJournalTakes(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, node.Idle, func(p *corev1.Pod) {
				p.UID = types.UID(strings.Repeat("u", 128))
			}))
		},
		check: func(g *target) {
			pods, err := g.Pods()
			must.OK(t, err)
			for _, p := range pods {
				if g.ShortName(p.Name) == "attacker" && p.Status.Phase == corev1.PodPending {
					g.Error("the pod waits for ever, want it refused or running")
				}
			}
		},
	}.run(t)
}

func TestTwoFilesOfTheSameThousandPods(t *testing.T) {
	attack{
		begin: func(g *target) {
			var all []string
			for i := range 1024 {
				p := node.Pod(fmt.Sprintf("%s-%d", strings.Repeat("n", 200), i), node.Image, node.Idle)
				p.Spec.NodeSelector = map[string]string{"no": "node"} // rejected: what is counted is not their start
				all = append(all, node.Manifest(p), "---\n")
			}
			g.write("one.yaml", all...)
			g.write("two.yaml", all...)
		},
	}.run(t)
}

func TestRequestsBeyondAllNumbers(t *testing.T) {
	attack{
		begin: func(g *target) {
			for i, memory := range []string{"18446742974197923840", "9223372036854775807", "1e30", "1E-30"} {
				text := node.Manifest(node.Pod(fmt.Sprintf("attacker-%d", i), node.Image, node.Idle))
				g.write(fmt.Sprintf("attacker-%d.yaml", i), strings.Replace(text, "resources: {}",
					"resources: {requests: {memory: \""+memory+"\", cpu: \""+memory+"\"}}", 1))
			}
		},
		check: func(g *target) {
			for i := range 3 {
				if _, err := startOf(fmt.Sprintf("attacker-%d", i), g.Node); err == nil {
					g.Errorf("a pod that requests more than any node has runs: attacker-%d", i)
				}
			}
		},
	}.run(t)
}

func TestFilesThatAreNoManifests(t *testing.T) {
	attack{
		begin: func(g *target) {
			at := func(name string) string { return filepath.Join(g.Manifests, name) }
			must.OK(t, errors.Join(
				unix.Mkfifo(at("fifo.yaml"), 0o644), os.Symlink("/dev/zero", at("zero.yaml")),
				os.Symlink("loop.yaml", at("loop.yaml")), os.WriteFile(at("sparse.yaml"), nil, 0o600),
				os.Truncate(at("sparse.yaml"), 1<<40),
			))
			for i := range 3000 {
				g.write(fmt.Sprintf("small-%d.yaml", i), "a: b\n")
			}
		},
		restart: true,
	}.run(t)
}

// hostile serves what each path names.
func hostile(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/nested":
		_, _ = io.WriteString(w, strings.Join(nested(), ""))
	case "/endless":
		for b := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	case "/silent":
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "/around":
		http.Redirect(w, r, "/around", http.StatusFound)
	}
}

func TestServersOfManifests(t *testing.T) {
	for _, path := range []string{"/nested", "/endless", "/silent", "/around"} {
		t.Run(path[1:], func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(hostile))
			defer s.Close()
			defer s.CloseClientConnections()
			attack{
				flags: []string{"--manifest-url", s.URL + path, "--http-check-frequency", "1s"},
				// The source stays unhealthy: it never had a response. Health is not what this attacks.
				unhealthy: "http source",
			}.run(t)
		})
	}
}
