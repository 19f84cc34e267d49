//go:build attack

package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a tenant of a cluster does, who sends the API server what it lets through. The judges are other tenants, who
// know the node by the API server and by port 10250 alone. These attacks know of the API server that it speaks HTTP: it
// is the one in memory, or the one of -attack.kubeconfig.

// atOnce is how many requests an attack has under way.
const atOnce = 8

// namespaces are the tenants' namespaces.
type namespaces struct {
	url          string
	client       *http.Client
	mine, others string // of the attacker, and of everybody else
}

func newNamespaces(g *target) *namespaces {
	g.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", g.world.kubeconfig)
	must.OK(g.T, err)
	client, err := rest.HTTPClientFor(config)
	must.OK(g.T, err)
	n := &namespaces{url: config.Host, client: client, mine: g.Node + "-mine", others: g.Node + "-others"}
	g.ns = n
	for _, name := range []string{n.mine, n.others} {
		g.must(http.MethodPost, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil)
	}
	n.restrict(g)
	g.AtTheEnd(func() {
		for _, name := range []string{"namespaces/" + n.mine, "namespaces/" + n.others, "nodes/" + g.Node} {
			_, _ = g.send(http.MethodDelete, "/api/v1/"+name, nil, nil) // the cluster removes what is in it
		}
		client.CloseIdleConnections()
	})
	if *realAPI != "" { // its admission wants the account of each pod
		for _, name := range []string{n.mine, n.others} {
			node.Eventually(g.T, settle, "the account of pods", func() error {
				_, err := g.send(http.MethodGet, "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil, nil)
				return err
			})
		}
	}
	return n
}

// restrict has a real API server let the attacker do what a tenant may who edits its namespace, and no more.
func (n *namespaces) restrict(g *target) {
	if *realAPI == "" {
		return
	}
	g.must(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+n.mine+"/rolebindings", map[string]any{
		"metadata": map[string]any{"name": "edit"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": n.mine}},
	}, nil)
}

// send sends a request to the API server, and returns its status. A status other than success is an error, too. answer
// may be nil.
func (g *target) send(method, path string, body, answer any) (int, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a body may have 3 MiB
	if err := e.Encode(body); err != nil {
		return 0, err
	}
	ctx, cancel := node.Bounded()
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, g.ns.url+path, &b)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if *realAPI != "" && strings.HasPrefix(path, pathOf(g.ns.mine, "")) { // what an administrator may, no tenant may
		request.Header.Set("Impersonate-User", g.ns.mine)
		request.Header.Set("Impersonate-Group", "system:authenticated")
	}
	res, err := g.ns.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 256))
		return res.StatusCode, fmt.Errorf("%s %.200s: %s: %s", method, path, res.Status, text)
	}
	if answer == nil {
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, err
	}
	return res.StatusCode, json.NewDecoder(res.Body).Decode(answer)
}

// must sends a request that has to succeed.
func (g *target) must(method, path string, body, answer any) {
	g.Helper()
	if _, err := g.send(method, path, body, answer); err != nil {
		g.Error(err) // attacks send from goroutines
	}
}

// pathOf returns the path of a resource in a namespace, and of an object of it.
func pathOf(namespace, resource string, name ...string) string {
	return "/api/v1/namespaces/" + namespace + "/" + strings.Join(append([]string{resource}, name...), "/")
}

// pod is the path of a pod. Its name ends with the node's name, like the name of a static pod, so that node.Agent finds
// what is left of the pod.
func (g *target) pod(namespace, name string) string {
	return pathOf(namespace, "pods", name+"-"+g.Node)
}

// create creates a pod that is bound to the node.
func (g *target) create(namespace string, p *corev1.Pod) {
	g.Helper()
	p = p.DeepCopy()
	p.Name += "-" + g.Node
	p.Namespace, p.Spec.NodeName, p.Spec.AutomountServiceAccountToken = namespace, g.Node, new(bool)
	g.must(http.MethodPost, pathOf(namespace, "pods"), p, nil)
}

// remove deletes a pod, with no grace by force.
func (g *target) remove(namespace, name string, grace int64) {
	g.Helper()
	g.must(http.MethodDelete, g.pod(namespace, name), metav1.DeleteOptions{GracePeriodSeconds: &grace}, nil)
}

// awaitPod waits until a pod of the attacker is at the API server as wanted.
func (g *target) awaitPod(namespace, name, what string, wanted func(*corev1.Pod) bool) {
	g.Helper()
	node.Eventually(g.T, settle, name+" "+what, func() error {
		var p corev1.Pod
		if _, err := g.send(http.MethodGet, g.pod(namespace, name), nil, &p); err != nil {
			return err
		}
		if !wanted(&p) {
			return fmt.Errorf("its status is %s %s %.200s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		return nil
	})
}

func rejected(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }

// each does something so many times, some at once.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// inTurn does something so many times.
func inTurn(n int, do func(i int)) {
	for i := range n {
		do(i)
	}
}

// emptyNamespaces deletes all pods of the tenants, and waits until they are gone.
func (g *target) emptyNamespaces() {
	g.Helper()
	node.Eventually(g.T, settle, "all deleted pods to be gone", func() error {
		var errs error
		for _, name := range []string{g.ns.mine, g.ns.others} {
			var list metav1.PartialObjectMetadataList
			if _, err := g.send(http.MethodGet, pathOf(name, "pods"), nil, &list); err != nil {
				return err
			}
			for _, p := range list.Items {
				if p.DeletionTimestamp == nil {
					g.remove(name, strings.TrimSuffix(p.Name, "-"+g.Node), 1)
				}
				errs = errors.Join(errs, fmt.Errorf("%s is there, deleted at %s", p.Name, p.DeletionTimestamp))
			}
		}
		return errs
	})
}

// fits checks that a pod which requests all that the node has is admitted, once it runs nothing else: what others held
// is free.
func (g *target) fits() {
	g.Helper()
	var n corev1.Node
	g.must(http.MethodGet, "/api/v1/nodes/"+g.Node, nil, &n)
	all := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		all[name] = n.Status.Allocatable[name]
	}
	g.create(g.ns.others, node.Pod("all", node.Image, node.Idle, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = all
	}))
	g.awaitPod(g.ns.others, "all", "to run with all that the node has", func(p *corev1.Pod) bool {
		if rejected(p) {
			g.Fatalf("the node runs nothing, and rejects a pod that requests %v: %s %s", all, p.Status.Reason,
				p.Status.Message)
		}
		return p.Status.Phase == corev1.PodRunning
	})
	g.emptyNamespaces()
}

// most returns nearly all of a resource of the node.
func (g *target) most(name corev1.ResourceName) resource.Quantity {
	g.Helper()
	var n corev1.Node
	g.must(http.MethodGet, "/api/v1/nodes/"+g.Node, nil, &n)
	q := n.Status.Allocatable[name]
	return *resource.NewMilliQuantity(q.MilliValue()*9/10, q.Format)
}

// server is the API server, as a client of the node's port.
func (g *target) server() caller {
	return caller{cert: g.world.clients.Client(g.T, "kube-apiserver", "system:masters")}
}

// bystanderAt is the path of the first bystander's container.
func (g *target) bystanderAt() string { return "/" + g.ns.others + "/bystander-1-" + g.Node + "/main" }

// serves returns an error unless a command runs in another tenant's pod, and its log is read.
func (g *target) serves(who caller) error {
	run := "/run" + g.bystanderAt() + "?cmd=" + url.QueryEscape("echo "+mark)
	code, body, err := g.world.do(who, http.MethodPost, run, nil)
	if code != http.StatusOK || !strings.Contains(body, mark) {
		return fmt.Errorf("a command: %d %.200q: %w", code, body, errors.Join(err, errors.New("refused")))
	}
	if code, body, err = g.world.do(who, http.MethodGet, "/containerLogs"+g.bystanderAt(), nil); code != http.StatusOK {
		return fmt.Errorf("a log: %d %.200q: %w", code, body, errors.Join(err, errors.New("refused")))
	}
	return nil
}

// served checks during an attack that others can use their pods, and delete them.
func (g *target) served() {
	g.Helper()
	who := g.server()
	node.Eventually(g.T, settle, "the port to serve another tenant", func() error { return g.serves(who) })
	last := fmt.Sprintf("bystander-%d", g.pods)
	g.remove(g.ns.others, last, 1)
	g.gone(g.ns.others, last)
}

// gone waits until a pod that was deleted is gone.
func (g *target) gone(namespace, name string) {
	g.Helper()
	node.Eventually(g.T, settle, name+" to be gone", func() error {
		if code, err := g.send(http.MethodGet, g.pod(namespace, name), nil, nil); code != http.StatusNotFound {
			return fmt.Errorf("it is there: %d, %v", code, err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}

// stored is how many bytes the journal and the manifests take on disk.
func (g *target) stored() (bytes int64) {
	g.Helper()
	must.OK(g.T, filepath.WalkDir(g.bus(), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	}))
	return bytes
}
