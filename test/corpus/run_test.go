//go:build corpus

package corpus

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

const (
	endpointVariable = "JOURNALET_TEST_CRI_ENDPOINT"
	// batch bounds the pods that run at once, for a machine that runs other tests as well.
	batch = 30
	// soon bounds the start of a batch: what needs longer waits for something that it will not get.
	soon = 30 * time.Second
	// settle bounds the end of a batch.
	settle = 90 * time.Second
)

var (
	want  = flag.Int("corpus.run", 1, "how many files have to run, at least")
	setup node.Setup
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := setup.Run(m, func() (string, error) {
		if os.Getenv(endpointVariable) == "" {
			return "", errors.New(endpointVariable + " is empty: set it to the output of deploy/lab/lab.sh endpoint")
		}
		return os.Getenv(endpointVariable), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		code = 1
	}
	os.Exit(code)
}

// pod is a pod that runs in the place of a pod of the directory.
type pod struct {
	file string
	*corev1.Pod
	state string // why it does not run, "" if it does
}

// TestAcceptedManifestsRun runs the pods of each accepted file, with made-up objects and tokens. A pod runs once it is
// Running or has Succeeded.
func TestAcceptedManifestsRun(t *testing.T) {
	verdicts := judged(t)
	host := &host{t: t, dir: t.TempDir()}
	var pods []*pod
	objects, tokens := Objects{}, map[string]bool{}
	for _, v := range verdicts {
		if !v.WithToken {
			continue
		}
		for _, p := range v.Decoded {
			// One token for all pods of a namespace, whichever service account they name.
			tokens[p.Namespace+"/"+accountOf(p)] = true
			p = Runnable(p, fmt.Sprintf("m%d", len(pods)), node.Image, host)
			objects.Add(p)
			pods = append(pods, &pod{file: v.Name, Pod: p})
		}
	}
	var flags []string
	token := filepath.Join(host.dir, "token")
	must.OK(t, os.WriteFile(token, []byte("token-of-a-test"), 0o600))
	for _, account := range sortedKeys(tokens) {
		flags = append(flags, "--service-account-token-file", account+"="+token)
	}
	a := setup.NewAgent(t, settle, nil, flags...)
	a.Put("objects.yaml", objects.Manifest())
	a.Start()
	for len(pods) > 0 {
		n := min(batch, len(pods))
		run(t, a, pods[:n])
		tally.add(pods[:n])
		t.Logf("%d of %d pods ran so far", tally.ran, tally.all)
		pods = pods[n:]
	}
	t.Log("\n" + tally.String())
	if tally.ran < *want {
		t.Errorf("%d pods ran, want %d", tally.ran, *want)
	}
}

func accountOf(p *corev1.Pod) string {
	if p.Spec.ServiceAccountName != "" {
		return p.Spec.ServiceAccountName
	}
	return "default"
}

// run runs some pods until each runs, or soon has passed, and removes them.
func run(t *testing.T, a *node.Agent, pods []*pod) {
	t.Helper()
	for _, p := range pods {
		a.Put(p.Name+".yaml", node.Manifest(p.Pod))
	}
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	over := time.After(soon)
	for waiting := true; waiting && observe(t, a, pods) < len(pods); {
		select {
		case <-poll.C:
		case <-over:
			waiting = false
		}
	}
	for _, p := range pods {
		a.Remove(p.Name + ".yaml")
	}
	node.Eventually(t, settle, "the pods to be gone", a.Gone)
}

// observe records the state of each pod, and returns how many run or never will.
func observe(t *testing.T, a *node.Agent, pods []*pod) int {
	t.Helper()
	list, err := a.Pods()
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]*corev1.Pod{}
	for i := range list {
		states[a.ShortName(list[i].Name)] = &list[i]
	}
	done := 0
	for _, p := range pods {
		if p.state = stateOf(states[p.Name]); p.state == "" || strings.HasPrefix(p.state, string(corev1.PodFailed)) {
			done++
		}
	}
	return done
}

// stateOf returns "" for a pod that runs, or has succeeded, and what it waits for otherwise.
func stateOf(p *corev1.Pod) string {
	if p == nil {
		return "not reported"
	}
	if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded {
		return ""
	}
	why := []string{string(p.Status.Phase), p.Status.Reason, p.Status.Message}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			if w := c.State.Waiting; w != nil && w.Message != "" {
				why = append(why, c.Name+": "+w.Reason+": "+w.Message)
			}
		}
	}
	return strings.Join(strings.Fields(strings.Join(why, " ")), " ")
}

// results counts what ran, and keeps what did not.
type results struct {
	ran, all int
	failed   []string
}

var tally results

func (r *results) add(pods []*pod) {
	for _, p := range pods {
		r.all++
		if p.state == "" {
			r.ran++
			continue
		}
		r.failed = append(r.failed, p.file+": "+p.state)
	}
}

func (r *results) String() string {
	return fmt.Sprintf("ran %d of %d pods; not: %d\n  %s", r.ran, r.all, len(r.failed), strings.Join(r.failed, "\n  "))
}

// host gives each type of host path a path below a directory of the test.
type host struct {
	t   *testing.T
	dir string
	n   int
}

func (h *host) Path(kind corev1.HostPathType) string {
	h.n++
	path := filepath.Join(h.dir, fmt.Sprintf("host%d", h.n))
	var err error
	switch kind {
	case corev1.HostPathCharDev:
		return "/dev/null"
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		err = os.WriteFile(path, nil, 0o600)
	case corev1.HostPathSocket:
		var l net.Listener
		if l, err = net.Listen("unix", path); err == nil {
			h.t.Cleanup(func() { _ = l.Close() })
		}
	default:
		err = os.Mkdir(path, 0o700)
	}
	must.OK(h.t, err)
	return path
}
