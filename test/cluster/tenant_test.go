//go:build cluster

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/journalet/journalet/test/must"
)

// What an API server lets a tenant send that may edit its namespace. The attacks of tenants in test/attack and
// test/simulation consist of what it takes; what it refuses, no tenant sends.

// tenantNamespace is the tenant's.
const tenantNamespace = "mallory"

// aNode is the node that its pods name, which exists nowhere.
const aNode = "node-of-a-tenant"

// hostilePod returns a pod of the tenant that names its node.
func hostilePod(name string, change func(*core.Pod)) *core.Pod {
	p := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: tenantNamespace},
		Spec: core.PodSpec{
			NodeName: aNode, AutomountServiceAccountToken: new(bool), ServiceAccountName: "robot",
			Containers: []core.Container{{Name: "main", Image: "example.com/app:1"}},
		},
	}
	change(p)
	return p
}

// hostileService returns a Service of the tenant with so many ports.
func hostileService(name, ip string, ports, annotation int) *core.Service {
	s := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{"a": strings.Repeat("x", annotation)}},
		Spec:       core.ServiceSpec{ClusterIP: ip},
	}
	for i := range ports {
		s.Spec.Ports = append(s.Spec.Ports, core.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
	}
	return s
}

// args gives a pod an argument of so many bytes.
func args(bytes int) func(*core.Pod) {
	return func(p *core.Pod) { p.Spec.Containers[0].Args = []string{strings.Repeat("<", bytes)} }
}

// secretName gives a pod a volume of a Secret with a name of so many bytes.
func secretName(bytes int) func(*core.Pod) {
	return func(p *core.Pod) {
		p.Spec.Volumes = []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{
			Secret: &core.SecretVolumeSource{SecretName: strings.Repeat("s", bytes)},
		}}}
	}
}

// tolerations gives a pod so many.
func tolerations(n int) func(*core.Pod) {
	return func(p *core.Pod) {
		for i := range n {
			p.Spec.Tolerations = append(p.Spec.Tolerations, core.Toleration{
				Key: fmt.Sprintf("example.com/%050d", i), Operator: core.TolerationOpExists,
			})
		}
	}
}

// volumes gives a pod so many.
func volumes(n int) func(*core.Pod) {
	return func(p *core.Pod) {
		for i := range n {
			p.Spec.Volumes = append(p.Spec.Volumes, core.Volume{Name: fmt.Sprint("v", i)})
		}
	}
}

// containers gives a pod so many more.
func containers(n int) func(*core.Pod) {
	return func(p *core.Pod) {
		for i := range n {
			p.Spec.Containers = append(p.Spec.Containers, core.Container{Name: fmt.Sprint("c", i), Image: "i"})
		}
	}
}

// annotated gives a pod an annotation.
func annotated(key string, bytes int) func(*core.Pod) {
	return func(p *core.Pod) { p.Annotations = map[string]string{key: strings.Repeat("x", bytes)} }
}

// sent is a request of the tenant. path is one of its namespace, unless it begins with a slash.
type sent struct {
	what, method, path string
	body               any
	code               int
}

const inNamespace = "/api/v1/namespaces/" + tenantNamespace + "/"

// requestsOfATenant are requests with the API server's answers.
var requestsOfATenant = []sent{
	{"an argument of 1.38 MB", http.MethodPost, "pods", hostilePod("large", args(1_380_000)), 201},
	{"an argument of 1.6 MB", http.MethodPost, "pods", hostilePod("larger", args(1_600_000)), 500},
	{"an argument of 3.2 MB", http.MethodPost, "pods", hostilePod("largest", args(3_200_000)), 413},
	{"the name of a Secret of 1.1 MB", http.MethodPost, "pods", hostilePod("reference", secretName(1_100_000)), 201},
	{"11,000 tolerations", http.MethodPost, "pods", hostilePod("tolerations", tolerations(11_000)), 201},
	{"3,000 volumes", http.MethodPost, "pods", hostilePod("volumes", volumes(3000)), 201},
	{"201 containers", http.MethodPost, "pods", hostilePod("containers", containers(200)), 201},
	{"a grace period of centuries", http.MethodPost, "pods", hostilePod("grace", func(p *core.Pod) {
		grace := int64(1) << 40
		p.Spec.TerminationGracePeriodSeconds = &grace
	}), 201},
	{"annotations of 300 kB", http.MethodPost, "pods", hostilePod("annotations", annotated("a", 300_000)), 422},
	{"a mirror pod", http.MethodPost, "pods", hostilePod("mirror", annotated(core.MirrorPodAnnotationKey, 9)), 403},
	{"a mirror pod without account", http.MethodPost, "pods", hostilePod("mirror", func(p *core.Pod) {
		p.Spec.ServiceAccountName = ""
		annotated(core.MirrorPodAnnotationKey, 9)(p)
	}), 201},
	{"no containers", http.MethodPost, "pods", hostilePod("none", func(p *core.Pod) { p.Spec.Containers = nil }), 422},
	{"an escape sequence as a name", http.MethodPost, "pods", hostilePod("escape\x1b[2J", func(*core.Pod) {}), 422},
	{"a path as a container's name", http.MethodPost, "pods", hostilePod("path", func(p *core.Pod) {
		p.Spec.Containers[0].Name = "../../owned"
	}), 422},
	{"a label of a large pod", http.MethodPatch, "pods/large", json.RawMessage(`{"metadata":{"labels":{"l":"1"}}}`), 200},
	{"another image", http.MethodPatch, "pods/grace",
		json.RawMessage(`{"spec":{"containers":[{"name":"main","image":"example.com/app:2"}]}}`), 200},
	{"another command", http.MethodPatch, "pods/grace",
		json.RawMessage(`{"spec":{"containers":[{"name":"main","image":"example.com/app:2","command":["x"]}]}}`), 422},
	{"a status", http.MethodPatch, "pods/grace/status", json.RawMessage(`{"status":{"phase":"Failed"}}`), 403},
	{"a binding", http.MethodPost, "pods/grace/binding", &core.Binding{
		ObjectMeta: meta.ObjectMeta{Name: "grace"}, Target: core.ObjectReference{Kind: "Node", Name: "n"}}, 403},
	{"a deletion with a huge grace period", http.MethodDelete, "pods/grace",
		json.RawMessage(`{"gracePeriodSeconds":1099511627776}`), 200},
	{"a deletion by force", http.MethodDelete, "pods/grace", json.RawMessage(`{"gracePeriodSeconds":0}`), 200},
	{"a ConfigMap of 1.1 MB", http.MethodPost, "configmaps", &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Name: "large"}, Data: map[string]string{"k": strings.Repeat("x", 1_100_000)}}, 422},
	{"a headless Service with 250 kB of annotations", http.MethodPost, "services",
		hostileService("annotated", core.ClusterIPNone, 1, 250_000), 201},
	{"a Service of 10,000 ports", http.MethodPost, "services", hostileService("ports", "", 10_000, 1), 201},
	{"a token", http.MethodPost, "serviceaccounts/robot/token", json.RawMessage(
		`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{}}`), 201},
	{"an event", http.MethodPost, "events", &core.Event{ObjectMeta: meta.ObjectMeta{Name: "e"},
		InvolvedObject: core.ObjectReference{Kind: "Pod", Namespace: tenantNamespace, Name: "large"}}, 201},
	{"the pods of the node", http.MethodGet, "/api/v1/pods", nil, 403},
	{"the node's port", http.MethodGet, "/api/v1/nodes/" + aNode + "/proxy/pods", nil, 403},
	{"the node", http.MethodDelete, "/api/v1/nodes/" + aNode, nil, 403},
	{"a pod of another", http.MethodPost, "/api/v1/namespaces/default/pods", hostilePod("other", func(*core.Pod) {}), 403},
}

// tenantIsAnswered compares the API server's answers with the table.
func tenantIsAnswered(t *testing.T, c *Cluster) {
	admin := clientOf(t, c.Admin())
	_, err := admin.CoreV1().Namespaces().Create(t.Context(),
		&core.Namespace{ObjectMeta: meta.ObjectMeta{Name: tenantNamespace}}, meta.CreateOptions{})
	must.OK(t, err)
	_, err = admin.CoreV1().ServiceAccounts(tenantNamespace).Create(t.Context(),
		&core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "robot"}}, meta.CreateOptions{})
	must.OK(t, err)
	_, err = admin.RbacV1().RoleBindings(tenantNamespace).Create(t.Context(), &rbac.RoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "edit"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: tenantNamespace}},
	}, meta.CreateOptions{})
	must.OK(t, err)
	kubeconfig, err := c.Kubeconfig("tenant", tenantNamespace, nil, time.Now().Add(time.Hour))
	must.OK(t, err)
	tenant := clientOf(t, kubeconfig)
	eventually(t, func() error { // the authorizer hears of the role
		_, err := tenant.CoreV1().Pods(tenantNamespace).List(t.Context(), meta.ListOptions{})
		return err
	})
	for _, a := range requestsOfATenant {
		if code, text := a.answer(t, tenant); code != a.code {
			t.Errorf("%s: %d %.300s; want %d", a.what, code, text, a.code)
		}
	}
}

// answer sends the request.
func (a sent) answer(t *testing.T, tenant *kubernetes.Clientset) (code int, text []byte) {
	t.Helper()
	path := a.path
	if !strings.HasPrefix(path, "/") {
		path = inNamespace + path
	}
	q := tenant.CoreV1().RESTClient().Verb(a.method).AbsPath(path)
	if a.method == http.MethodPatch {
		q = tenant.CoreV1().RESTClient().Patch(types.StrategicMergePatchType).AbsPath(path)
	}
	if a.body != nil {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		must.OK(t, e.Encode(a.body))
		q = q.Body(b.Bytes()).SetHeader("Content-Type", "application/json")
		if a.method == http.MethodPatch {
			q = q.SetHeader("Content-Type", string(types.StrategicMergePatchType))
		}
	}
	text, _ = q.Do(t.Context()).StatusCode(&code).Raw() // the code says more
	return code, text
}
