package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// canary begins every secret of this test.
const canary = "CANARY-"

// secret returns the canary of a place where credentials are kept. Another place, such as pull secrets, needs a call of
// this in the manifests, objects or faults below, and nothing else: whatever begins with canary is searched for.
func secret(place string) string { return canary + place + "-0123456789abcdef" }

// TestNoSecretLeavesTheManifest runs the agent with credentials wherever a manifest, its URL or an error of the runtime
// can hold one, and searches for them wherever somebody without the manifests can read: the journal and the
// snapshots on disk, the log, the metrics, the events of observers, traces, and the output of the commands. Only the
// store of manifests has them, by design.
func TestNoSecretLeavesTheManifest(t *testing.T) {
	n := newSecretNode(t)
	events := n.observe()
	for _, want := range []string{
		"boom create", "boom start", "boom pull", "boom sandbox", "boom hook", "boom stop", "boom exec", "boom output",
		"connection refused", "503", "boom refs", "boom printenv", "boom auth", "credentials tried: 3; secret",
		"credential provider bad",
	} {
		n.awaitText(want)
	}
	n.running(events())
	n.stop()
	// The next run knows the manifests by their digests only, until it needs one.
	n.start()
	n.awaitText(`"epoch":2`)
	n.awaitRelist()
	n.stop()

	places := map[string]string{"the log": n.log.String(), "the metrics": n.metrics, "an observer": events()}
	for _, args := range [][]string{
		{"observe", "--no-follow", "--from", "1", "--journal", n.root},
		{"observe", "--no-follow", "--from", "1", "-o", "json", "--journal", n.root},
		{"journal", "size"}, {"journal", "verify"}, {"timeline", "web-n1", "-o", "json"}, {"trace", "web-n1"},
		{"trace", "absent-n1"}, {"journal", "export", "-o", filepath.Join(n.dir, "plain")},
		{"journal", "export", "--redact", "-o", filepath.Join(n.dir, "redacted")},
		{"observe", "--no-follow", "--from", "1", "-o", "json", "--journal", filepath.Join(n.dir, "plain")},
		{"observe", "--no-follow", "--from", "1", "-o", "json", "--journal", filepath.Join(n.dir, "redacted")},
	} {
		code, out, errs := run(t.Context(), append(args, "--root-dir", n.root)...)
		if code != exitOK {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
		places["the command "+strings.Join(args, " ")] = out + errs
	}
	for what, text := range n.outputs {
		places[what] = text
	}
	n.manifestsOf("plain", true)
	n.manifestsOf("redacted", false)
	held, mounted := false, false
	must.OK(t, filepath.WalkDir(n.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(path, "/kubernetes.io~") {
			mounted = mounted || bytes.Contains(b, []byte(secret("mounted")))
			return err // the pod's own files, in memory
		}
		if strings.Contains(path, "/MANIFESTS/") {
			held = held || bytes.Contains(b, []byte(secret("env")))
			return err
		}
		places[path] = string(b)
		return err
	}))
	for place, text := range places {
		for _, found := range regexp.MustCompile(canary+`\w+|`+basicAuth()).FindAllString(text, -1) {
			t.Errorf("%s shows %s:\n%s", place, found, around(text, found))
		}
	}
	if !mounted {
		t.Error("no volume holds what it is for: this test searches for nothing")
	}
	if !held {
		t.Error("the store of manifests does not hold what it is for: this test searches for nothing")
	}
}

// manifestsOf reports whether a bundle holds a manifest with credentials: a plain one does, by design.
func (n *secretNode) manifestsOf(bundle string, want bool) {
	n.t.Helper()
	live, err := open.Path(n.t.Context(), n.root)
	must.OK(n.t, err)
	r, err := open.Path(n.t.Context(), filepath.Join(n.dir, bundle))
	must.OK(n.t, err)
	found := false
	must.OK(n.t, live.Read(n.t.Context(), 1, 0, func(e history.Entry) error {
		rec, err := e.Record()
		if err != nil {
			return err
		}
		for _, event := range messages.Events(rec) {
			if digest := event.GetPodUpdated().GetPod().GetDigest(); digest != "" {
				manifest, err := r.Manifest(n.t.Context(), digest)
				found = found || err == nil && bytes.Contains(manifest, []byte(canary))
			}
		}
		return nil
	}))
	if found != want {
		n.t.Errorf("the bundle %s holds manifests with credentials: %v, want %v", bundle, found, want)
	}
}

// around returns the text about the first occurrence of what was found.
func around(text, found string) string {
	i := strings.Index(text, found)
	return strings.ToValidUTF8(text[max(0, i-200):min(len(text), i+200)], ".")
}

// secretPods are the pods of the test. Each value that begins with canary is a credential.
func secretPods() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {vault.example/token: "%[1]s", kubectl.kubernetes.io/last-applied-configuration: '{"x":"%[2]s"}'}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: registry.example/app:1
    command: [sleep, inf, "--password=%[3]s"]
    args: [%[4]s]
    env: [{name: PASSWORD, value: %[5]s}]
    lifecycle:
      postStart: {exec: {command: [touch, %[6]s]}}
      preStop:
        httpGet: {path: "/stop?token=%[7]s", port: 1, httpHeaders: [{name: Authorization, value: "Bearer %[8]s"}]}
    readinessProbe:
      httpGet:
        host: 127.0.0.1
        port: 1
        path: "/ready?token=%[10]s"
        httpHeaders: [{name: Authorization, value: "Bearer %[11]s"}]
      periodSeconds: 1
  - name: side
    image: registry.example/app:1
    command: [sleep, inf]
    env: [{name: TOKEN, value: %[14]s}]
    readinessProbe:
      exec: {command: [sh, -c, "echo boom output of $TOKEN; exit 1", %[9]s]}
      failureThreshold: 1
      periodSeconds: 1
---
apiVersion: v1
kind: Pod
metadata: {name: broken}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "registry.example/app:1", command: [missing, %[12]s], env: [{name: KEY, value: %[13]s}]}
---
apiVersion: v1
kind: Pod
metadata: {name: uncreated}
spec:
  containers:
  - name: main
    image: registry.example/app:1
    command: [sleep, inf, %[4]s, "--password=%[3]s"]
    env: [{name: A, value: %[5]s}]
---
apiVersion: v1
kind: Pod
metadata: {name: absent}
spec:
  containers: [{name: main, image: "registry.example/absent:1"}]
`, secret("annotation"), secret("applied"), secret("flag"), secret("arg"), secret("env"), secret("hookcommand"),
		secret("hookquery"), secret("hookheader"), secret("probecommand"), secret("probequery"), secret("probeheader"),
		secret("missingarg"), secret("missingenv"), secret("printed"))
}

// podWithSecrets refers to Secrets in each way.
const podWithSecrets = `apiVersion: v1
kind: Pod
metadata: {name: refs}
spec:
  serviceAccountName: robot
  containers:
  - name: main
    image: registry.example/app:1
    command: [sleep, inf]
    env: [{name: LOGIN, valueFrom: {secretKeyRef: {name: login, key: env}}}]
    envFrom: [{secretRef: {name: all}, prefix: P_}]
    volumeMounts: [{name: keys, mountPath: /keys}, {name: more, mountPath: /more}]
    readinessProbe: {exec: {command: [printenv]}, periodSeconds: 1}
  volumes:
  - {name: keys, secret: {secretName: login}}
  - name: more
    projected:
      sources:
      - {secret: {name: login, items: [{key: projected, path: p}]}}
      - {serviceAccountToken: {path: token}}
`

// refs are what an error repeats of the Secrets of podWithSecrets.
func refs() string {
	return strings.Join([]string{secret("refenv"), secret("reffrom"), secret("mounted"), secret("projected"),
		secret("token")}, " ")
}

// writeObjects writes the Secrets of podWithSecrets, and some that cannot be read.
func (n *secretNode) writeObjects(dir string) {
	for name, text := range map[string]string{
		"login.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {env: " + secret("refenv") +
			", key: " + secret("mounted") + ", projected: " + secret("projected") + "}\n",
		"all.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: all}\nstringData: {from: " + secret("reffrom") +
			", 'bad.name': " + secret("badname") + "}\n",
		"syntax.yaml": "apiVersion: v1\nkind: Secret\nstringData: {a: \"" + secret("objectsyntax") + "}\n",
		"type.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: t}\ndata: {a: " + secret("objectbase64") + ", b: [" +
			secret("objecttype") + "]}\n",
		"token": secret("token"),
		"pull.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\ntype: kubernetes.io/dockerconfigjson\n" +
			"stringData: {.dockerconfigjson: '{\"auths\": {\"registry.example\": {\"username\": \"" + secret("pullname") +
			"\", \"password\": \"" + secret("pullpassword") + "\"}}}'}\n",
		"badpull.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: badpull}\ntype: kubernetes.io/dockercfg\n" +
			"stringData: {.dockercfg: '{\"registry.example\": {\"auth\": \"" + secret("badauth") + "\"}}'}\n",
	} {
		must.OK(n.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// badPods are manifests that cannot be read or are refused beside a credential.
var badPods = map[string]string{
	"syntax.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: s}\nspec:\n  containers:\n" +
		"  - {name: c, env: [{name: A, value: \"" + secret("syntax") + "]\n",
	"type.yaml": "apiVersion: v1\nkind: Pod\n" +
		"metadata: {name: t, annotations: {a: [" + secret("typedannotation") + "]}}\n" +
		"spec:\n  containers: [{name: c, image: 'x:1', env: [{name: A, value: {b: " + secret("typedenv") + "}}]}]\n",
	"refused.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: r}\nspec:\n  containers:\n  - name: c\n    image: x:1\n" +
		"    command: [" + secret("refusedcommand") + "]\n    env: [{name: A, value: " + secret("refusedenv") +
		"}, {name: 'a b', value: x}]\n    unknownField: " + secret("unknown") + "\n" +
		"    livenessProbe: {httpGet: {port: nowhere, httpHeaders: [{name: 'b d', value: " + secret("refusedheader") +
		"}]}}\n",
}

// secretNode is an agent on a simulated runtime whose errors repeat what they were given.
type secretNode struct {
	t         *testing.T
	root, dir string
	rt        *sim.Runtime
	port      int
	log       *lockedBuffer
	metrics   string
	outputs   map[string]string
	args      []string
	cancel    context.CancelFunc // nil while no agent runs
	done      chan int
}

func newSecretNode(t *testing.T) *secretNode {
	t.Helper()
	dir, err := os.MkdirTemp("", "jl") // t.TempDir is too long for a socket
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &secretNode{t: t, dir: dir, root: filepath.Join(dir, "root"), log: &lockedBuffer{}, outputs: map[string]string{},
		done: make(chan int, 1)}
	n.rt = sim.New(sim.Options{Images: []string{"registry.example/app:1"}, Behaviour: behaviour})
	t.Cleanup(n.rt.Close)
	n.inject()
	socket := filepath.Join(dir, "cri.sock")
	l, err := net.Listen("unix", socket)
	must.OK(t, err)
	go func() { _ = n.rt.Serve(t.Context(), l) }()
	pods := filepath.Join(dir, "pods")
	must.OK(t, os.Mkdir(pods, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(pods, "web.yaml"), []byte(secretPods()), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(pods, "refs.yaml"), []byte(podWithSecrets), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(pods, "private.yaml"), []byte(podWithPullSecrets), 0o600))
	providers, programs := n.writePullCredentials()
	objects := filepath.Join(dir, "objects")
	must.OK(t, os.Mkdir(objects, 0o700))
	n.writeObjects(objects)
	for name, text := range badPods {
		must.OK(t, os.WriteFile(filepath.Join(pods, name), []byte(text), 0o600))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no: "+secret("serverbody"), http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	n.port = node.Port(t)
	n.args = []string{"run", "--root-dir", n.root, "--static-pod-path", pods, "--hostname-override", "n1",
		"--container-runtime-endpoint", "unix://" + socket, "--cgroups-per-qos=false", "--allow-beside-kubelet",
		"--pod-log-dir", filepath.Join(dir, "logs"), "--container-log-dir", filepath.Join(dir, "links"),
		"--objects-path", objects, "--service-account-token-file", "default/robot=" + filepath.Join(objects, "token"),
		"--image-credential-provider-config", providers, "--image-credential-provider-bin-dir", programs,
		"--healthz-port", fmt.Sprint(n.port), "--v", "4", "--http-check-frequency", "1s",
		"--manifest-url", strings.Replace(server.URL, "http://", "http://user:"+secret("urlpassword")+"@", 1) +
			"/pods?token=" + secret("urlquery"), "--manifest-url-header", "Authorization:" + secret("urlheader")}
	n.start()
	t.Cleanup(n.stop)
	return n
}

func (n *secretNode) start() {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { n.done <- execute(ctx, "journalet", n.args, n.log, n.log) }()
}

// behaviour is what the containers do.
func behaviour(c *runtimeapi.ContainerConfig) (sim.Behaviour, bool) {
	if len(c.GetCommand()) > 0 && c.GetCommand()[0] == "missing" {
		return sim.Behaviour{StartError: fmt.Sprintf("boom start: exec %q with env %s", c.GetCommand(), c.GetEnvs())}, true
	}
	return sim.Behaviour{RunFor: sim.Forever}, true
}

// inject has each kind of call fail once, or for as long as it needs to be seen, with a text that repeats credentials.
func (n *secretNode) inject() {
	fail := func(method, text string, times int, match func(any) bool) {
		n.rt.Inject(sim.Fault{Method: method, Times: times, Match: match, Err: status.Error(codes.Unknown, text)})
	}
	values := secret("env") + " " + secret("arg") + " --password=" + secret("flag")
	inPod := func(pod string) func(req any) bool {
		return func(req any) bool {
			switch r := req.(type) {
			case *runtimeapi.CreateContainerRequest:
				return r.GetSandboxConfig().GetMetadata().GetName() == pod
			case *runtimeapi.RunPodSandboxRequest:
				return r.GetConfig().GetMetadata().GetName() == pod
			}
			return false
		}
	}
	fail("CreateContainer", "boom create: "+values, 1, inPod("uncreated-n1"))
	fail("RunPodSandbox", "boom sandbox: annotation "+secret("annotation")+" of "+secret("applied"), 1, inPod("web-n1"))
	fail("PullImage", "boom auth: "+pullCredentials(), 0, func(req any) bool {
		return strings.Contains(req.(*runtimeapi.PullImageRequest).GetImage().GetImage(), "/private")
	})
	fail("PullImage", "boom pull: Get \"https://user:"+secret("pulluser")+"@registry.example/v2/?sig="+secret("pullquery")+
		"\": refused", 0, nil)
	fail("CreateContainer", "boom refs: "+refs(), 1, inPod("refs-n1"))
	n.rt.Inject(sim.Fault{Method: "ExecSync", Match: func(req any) bool {
		return req.(*runtimeapi.ExecSyncRequest).GetCmd()[0] == "printenv"
	}, Times: 9, Err: status.Error(codes.Unknown, "boom printenv: "+refs())})
	fail("StopContainer", "boom stop: "+values+" "+secret("annotation"), 1, nil)
	n.rt.Inject(sim.Fault{Method: "ExecSync", Match: func(req any) bool {
		return req.(*runtimeapi.ExecSyncRequest).GetCmd()[0] == "touch"
	}, Times: 1, Err: status.Error(codes.Unknown, "boom hook: exec touch "+secret("hookcommand"))})
	// A probe without a result is tried three times, and logged after the third run.
	n.rt.Inject(sim.Fault{Method: "ExecSync", Match: func(req any) bool {
		return req.(*runtimeapi.ExecSyncRequest).GetCmd()[0] == "sh"
	}, Times: 9, Err: status.Error(codes.Unknown, "boom exec: "+secret("probecommand"))})
}

// awaitText waits until the log or the journal has a text: the failure was provoked.
func (n *secretNode) awaitText(text string) {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		_, out, _ := run(n.t.Context(), "observe", "--no-follow", "--from", "1", "-o", "json", "--root-dir", n.root)
		if strings.Contains(out, text) || strings.Contains(n.log.String(), text) {
			return
		}
		if time.Now().After(end) {
			_, out, _ = run(n.t.Context(), "observe", "--no-follow", "--from", "1", "--root-dir", n.root)
			n.t.Fatalf("no %q within a minute; the journal:\n%s", text, out)
		}
	}
}

// observe connects an observer with its key; the result returns what it has received.
func (n *secretNode) observe() func() string {
	n.t.Helper()
	received := &lockedBuffer{}
	for end := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		nc, err := bus.Listen(n.t.Context(), filepath.Join(n.root, busDir))
		if err == nil {
			n.t.Cleanup(nc.Close)
			_, err = nc.Subscribe(messages.EventFilter("n1"), func(m *nats.Msg) { _, _ = received.Write(m.Data) })
			must.OK(n.t, err)
			return received.String
		}
		if time.Now().After(end) {
			n.t.Fatalf("no observer connects: %v; the log:\n%s", err, n.log.String())
		}
	}
}

// running reads what only a running agent shows.
func (n *secretNode) running(observed string) {
	n.t.Helper()
	if !strings.Contains(observed, "call_finished") {
		n.t.Error("the observer has received no outcome of a call")
	}
	n.metrics = n.scrape()
	for _, args := range [][]string{
		{"pods"}, {"pods", "-o", "wide"}, {"pod", "web-n1"}, {"pod", "broken-n1"}, {"why", "web-n1"},
		{"pod", "refs-n1"}, {"why", "refs-n1"}, {"pod", "private-n1"}, {"why", "private-n1"},
	} {
		_, out, errs := run(n.t.Context(), append(args, "--root-dir", n.root)...)
		n.outputs["the command "+strings.Join(args, " ")] = out + errs
	}
}

// awaitRelist waits until the agent has inspected what the runtime shows.
func (n *secretNode) awaitRelist() {
	n.t.Helper()
	relisted := regexp.MustCompile(`kubelet_pleg_relist_duration_seconds_count [1-9]`)
	for end := time.Now().Add(time.Minute); !relisted.MatchString(n.scrape()); {
		if time.Now().After(end) {
			n.t.Fatal("no relist within a minute")
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (n *secretNode) scrape() string {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", n.port))
	if err != nil {
		return "" // the agent does not serve yet
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must.OK(n.t, err)
	return string(b)
}

// stop stops the agent, which then takes snapshots.
func (n *secretNode) stop() {
	if n.cancel == nil {
		return
	}
	n.cancel()
	n.cancel = nil
	if code := <-n.done; code != 0 {
		n.t.Errorf("the agent ended with %d; its log:\n%s", code, n.log.String())
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
