package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// TestNoSecretLeavesTheCluster runs the agent as a node of a cluster whose Secrets, tokens and kubeconfigs hold
// credentials, on a runtime whose errors repeat them, and searches for them where TestNoSecretLeavesTheManifest does,
// and in all that the agent sends to the API server: status, events, mirror pods. The log is at its highest level.
func TestNoSecretLeavesTheCluster(t *testing.T) {
	n := newSecretClusterNode(t)
	events := n.observe()
	for _, want := range []string{"boom create", "boom auth", "boom printenv", "call_finished"} {
		n.awaitText(want)
	}
	n.await("an event with the error", func() bool {
		for _, r := range append(n.api.Requests("create events"), n.api.Requests("patch events")...) {
			if bytes.Contains(r.Body, []byte("boom create")) {
				return true
			}
		}
		return false
	})
	n.await("a pod with its volumes", func() bool {
		var p corev1.Pod
		return n.api.Get("pods", "default", "refs", &p) && p.Status.Phase == corev1.PodRunning
	})
	n.requestsToThePort()
	n.metrics = n.scrape()
	n.pages()
	n.stop()
	// The next run has a kubeconfig with a token, and no API server.
	n.api.SetDown(true)
	n.args = append(n.args, "--kubeconfig", n.tokenKubeconfig())
	n.start()
	n.awaitText(`"epoch":2`)
	n.awaitRelist()
	n.stop()

	places := map[string]string{"the log": n.log.String(), "the metrics": n.metrics, "an observer": events()}
	for what, text := range n.outputs {
		places[what] = text
	}
	for i, r := range n.api.Requests("") {
		// A review is what a token is for.
		if !strings.HasPrefix(r.Resource, "tokenreviews") {
			places[fmt.Sprintf("request %d, %s %s %s", i, r, r.Namespace, r.Name)] = r.HTTP.URL.String() + string(r.Body)
		}
	}
	for _, args := range [][]string{
		{"observe", "--no-follow", "--from", "1", "-o", "json", "--journal", n.root},
		{"journal", "export", "-o", filepath.Join(n.dir, "plain")}, {"timeline", "refs", "-o", "json"},
		{"journal", "export", "--redact", "-o", filepath.Join(n.dir, "redacted")}, {"trace", "refs"}, {"journal", "verify"},
	} {
		code, out, errs := run(t.Context(), append(args, "--root-dir", n.root)...)
		if code != exitOK {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
		places["the command "+strings.Join(args, " ")] = out + errs
	}
	mounted := false
	must.OK(t, filepath.WalkDir(n.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Dir(path) == n.given {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(path, "/kubernetes.io~") {
			mounted = mounted || bytes.Contains(b, []byte(secret("mounted"))) // in memory
			return err
		}
		places[path] = string(b)
		return err
	}))
	for i := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + secret("any")))
		if !leaked.MatchString(text) {
			t.Errorf("%s is not recognized", text)
		}
	}
	if !mounted {
		t.Error("no volume holds what it is for: this test searches for nothing")
	}
	for place, text := range places {
		if found := leaked.FindString(text); found != "" {
			t.Errorf("%s shows %s:\n%s", place, found, around(text, found))
		}
	}
}

// leaked matches a credential, as it is and in base64 at each of the three offsets that it can have there.
var leaked = func() *regexp.Regexp {
	all := []string{canary + `\w+`}
	for i := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + canary))
		all = append(all, text[(i*8+5)/6:(i+len(canary))*8/6])
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}()

// secretClusterNode is a secretNode of a cluster.
type secretClusterNode struct {
	*secretNode
	api     *fakeapi.Server
	url     string
	given   string // the directory of the files with credentials that the agent is given
	clients *authority.Authority
	ports   [2]int // with and without authentication
}

func newSecretClusterNode(t *testing.T) *secretClusterNode {
	t.Helper()
	dir, err := os.MkdirTemp("", "jl") // t.TempDir is too long for a socket
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &secretClusterNode{
		secretNode: &secretNode{t: t, dir: dir, root: filepath.Join(dir, "root"), log: &lockedBuffer{},
			outputs: map[string]string{}, done: make(chan int, 1)},
		api: fakeapi.New(), given: filepath.Join(dir, "given"), clients: authority.New(t),
		ports: [2]int{node.Port(t), node.Port(t)},
	}
	n.url = n.api.Start(t)
	n.rt = sim.New(sim.Options{Images: []string{"registry.example/app:1"}, Behaviour: behaviour})
	t.Cleanup(n.rt.Close)
	n.injectCluster()
	socket := filepath.Join(dir, "cri.sock")
	l, err := net.Listen("unix", socket)
	must.OK(t, err)
	go func() { _ = n.rt.Serve(t.Context(), l) }()
	pods := filepath.Join(dir, "pods")
	must.OK(t, os.Mkdir(n.given, 0o700))
	must.OK(t, os.Mkdir(pods, 0o700))
	ca := filepath.Join(n.given, "ca.crt")
	must.OK(t, os.WriteFile(ca, n.clients.PEM(), 0o600))
	bootstrap := filepath.Join(n.given, "bootstrap.conf")
	must.OK(t, os.WriteFile(bootstrap, []byte(n.kubeconfig(secret("bootstraptoken"))), 0o600))
	n.fillAPI()
	n.port = node.Port(t)
	n.args = []string{"run", "--root-dir", n.root, "--static-pod-path", pods, "--hostname-override", "n1",
		"--container-runtime-endpoint", "unix://" + socket, "--cgroups-per-qos=false", "--allow-beside-kubelet",
		"--pod-log-dir", filepath.Join(dir, "logs"), "--container-log-dir", filepath.Join(dir, "links"),
		"--healthz-port", fmt.Sprint(n.port), "--v", "9", "--bootstrap-kubeconfig", bootstrap, "--address", "127.0.0.1",
		"--port", fmt.Sprint(n.ports[0]), "--read-only-port", fmt.Sprint(n.ports[1]), "--client-ca-file", ca,
		"--kube-api-content-type", "application/json", "--profiling",
		"--eviction-hard", "memory.available<0%"} // the machine's disks are others' matter
	n.start()
	t.Cleanup(n.stop)
	n.sign()
	return n
}

// kubeconfig returns a kubeconfig with a token.
func (n *secretClusterNode) kubeconfig(token string) string {
	return fakeapi.Kubeconfig(n.url, "{token: '"+token+"'}")
}

func (n *secretClusterNode) tokenKubeconfig() string {
	path := filepath.Join(n.given, "kubelet.conf")
	must.OK(n.t, os.WriteFile(path, []byte(n.kubeconfig(secret("kubeconfigtoken"))), 0o600))
	return path
}

// fillAPI creates pods of the node, and what they refer to.
func (n *secretClusterNode) fillAPI() {
	n.api.Token = func(_, _ string, r *authenticationv1.TokenRequest) error {
		r.Status.Token = secret("accounttoken")
		return nil
	}
	n.api.TokenReview = func(r *authenticationv1.TokenReview) {
		r.Status.Authenticated = r.Spec.Token == secret("clienttoken")
		r.Status.User.Username = "reader"
	}
	object := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	n.api.Create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: object("robot")})
	n.api.Create("secrets", &corev1.Secret{ObjectMeta: object("login"), Data: map[string][]byte{
		"env": []byte(secret("refenv")), "key": []byte(secret("mounted"))}})
	n.api.Create("secrets", &corev1.Secret{ObjectMeta: object("pull"), Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {"registry.example": {"username": "` +
			secret("pullname") + `", "password": "` + secret("pullpassword") + `"}}}`)}})
	pod := func(name, image string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: object(name), Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "robot",
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
			Volumes: []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "login"}}},
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				}}}}},
			Containers: []corev1.Container{{
				Name: "main", Image: image, Command: []string{"sleep", "inf"},
				VolumeMounts: []corev1.VolumeMount{{Name: "keys", MountPath: "/keys"}},
				Env: []corev1.EnvVar{{Name: "LOGIN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "login"}, Key: "env",
				}}}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					Exec: &corev1.ExecAction{Command: []string{"printenv"}}}},
			}},
		}}
	}
	n.api.Create("pods", pod("refs", "registry.example/app:1"))
	n.api.Create("pods", pod("private", "registry.example/private:1"))
}

// injectCluster has calls fail with texts that repeat credentials.
func (n *secretClusterNode) injectCluster() {
	ofPod := strings.Join([]string{secret("refenv"), secret("mounted"), secret("accounttoken")}, " ")
	ofPull := strings.Join([]string{secret("pullname"), secret("pullpassword"), basicAuth()}, " ")
	fail := func(method, text string, times int, match func(any) bool) {
		n.rt.Inject(sim.Fault{Method: method, Times: times, Match: match, Err: status.Error(codes.Unknown, text)})
	}
	fail("CreateContainer", "boom create: "+ofPod, 2, nil)
	fail("PullImage", "boom auth: "+ofPull, 0, func(req any) bool {
		return strings.Contains(req.(*runtimeapi.PullImageRequest).GetImage().GetImage(), "/private")
	})
	fail("ExecSync", "boom printenv: "+ofPod, 9, nil)
}

// sign signs the request for the client certificate, as kube-controller-manager does.
func (n *secretClusterNode) sign() {
	const csrs = "certificatesigningrequests.certificates.k8s.io"
	n.await("a request for a certificate that is signed", func() bool {
		for _, r := range n.api.Requests("get " + csrs) {
			var csr certificatesv1.CertificateSigningRequest
			if n.api.Change(csrs, "status", "", r.Name, &csr, func() {
				block, _ := pem.Decode(csr.Spec.Request)
				request, err := x509.ParseCertificateRequest(block.Bytes)
				must.OK(n.t, err)
				signed := n.clients.SignFor(n.t, &x509.Certificate{
					Subject: request.Subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
				}, request.PublicKey)
				csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
			}) {
				return true
			}
		}
		return false
	})
}

// await waits until something is so.
func (n *secretClusterNode) await(what string, ok func() bool) {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("no %s within a minute; the log:\n%s", what, n.log.String())
		}
	}
}

// requestsToThePort sends requests with tokens, good and bad ones.
func (n *secretClusterNode) requestsToThePort() {
	c := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	for token, code := range map[string]int{secret("clienttoken"): http.StatusOK, secret("badtoken"): 401} {
		req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet,
			fmt.Sprintf("https://127.0.0.1:%d/pods", n.ports[0]), http.NoBody)
		must.OK(n.t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := c.Do(req)
		must.OK(n.t, err)
		b, err := io.ReadAll(res.Body)
		must.OK(n.t, errors.Join(err, res.Body.Close()))
		if res.StatusCode != code {
			n.t.Errorf("a token got %d, want %d: %s", res.StatusCode, code, b)
		}
		n.outputs["/pods of the port, as "+fmt.Sprint(code)] = string(b)
	}
}

// pages reads the pages of the socket and the port without authentication, and what commands show of a running agent.
func (n *secretClusterNode) pages() {
	socket := local.Dial(filepath.Join(n.root, local.SocketFile)).HTTP
	defer socket.CloseIdleConnections()
	for _, path := range []string{"/pods", "/configz", "/metrics", "/healthz?verbose", "/statusz", "/flagz",
		"/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline", "/stats/summary"} {
		n.outputs["the socket's "+path] = read(n.t, socket, local.BaseURL+path)
		n.outputs["the read-only "+path] = read(n.t, http.DefaultClient,
			fmt.Sprintf("http://127.0.0.1:%d%s", n.ports[1], path))
	}
	for _, args := range [][]string{{"pods", "-o", "wide"}, {"pod", "refs"}, {"pod", "refs", "-o", "yaml"},
		{"why", "refs"}, {"pod", "private"}, {"why", "private"}} {
		code, out, errs := run(n.t.Context(), append(args, "--root-dir", n.root)...)
		if code != exitOK {
			n.t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
		n.outputs["the command "+strings.Join(args, " ")] = out + errs
	}
}

func read(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	res, err := c.Get(url)
	must.OK(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must.OK(t, err)
	return string(b)
}
