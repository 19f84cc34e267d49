package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/test/must"
)

// listPods serves GET /pods on a socket, and returns its path. Each request takes the next list; the last one stays.
func listPods(t *testing.T, lists ...[]corev1.Pod) string {
	t.Helper()
	next := make(chan []corev1.Pod, len(lists))
	for _, l := range lists {
		next <- l
	}
	return serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" {
			http.Error(w, "no such path", http.StatusNotFound)
			return
		}
		l := <-next
		if len(next) == 0 {
			next <- l
		}
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: l})
	}))
}

// serveSocket serves HTTP on a socket, and returns its path.
func serveSocket(t testing.TB, h http.Handler) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	must.OK(t, err)
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return socket
}

// aPod returns a running pod, given as namespace/name, with containers.
func aPod(name string, containers ...string) corev1.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + "-" + name)},
		Spec:       corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	return p
}

func TestPodsAreFoundByNameNamespaceAndUID(t *testing.T) {
	old := aPod("default/job", "main")
	old.Status.Phase, old.UID = corev1.PodSucceeded, "uid-old"
	pods := []corev1.Pod{
		aPod("default/web-node-1", "app"), aPod("default/db", "db"), aPod("kube-system/proxy", "p"),
		aPod("a/twin", "x"), aPod("b/twin", "x"), old, aPod("default/job", "main"),
	}
	for _, c := range []struct{ namespace, name, want string }{
		{"", "web-node-1", "uid-default-web-node-1"},
		{"", "web", "uid-default-web-node-1"}, // as in its manifest
		{"", "pod/db", "uid-default-db"},
		{"", "pods/default/db", "uid-default-db"},
		{"", "kube-system/proxy", "uid-kube-system-proxy"},
		{"kube-system", "proxy", "uid-kube-system-proxy"},
		{"", "uid-b-twin", "uid-b-twin"},
		{"b", "twin", "uid-b-twin"},
		{"", "job", "uid-default-job"}, // not the one that has ended
		{"", "uid-old", "uid-old"},
		{"", "", "no pod given"},
		{"", "twin", "2 pods match \"twin\": a/twin (UID uid-a-twin), b/twin"},
		{"default", "proxy", `pod "proxy" not found in namespace default; did you mean kube-system/proxy?`},
		{"", "wxy", `"wxy" not found: `},
		{"", "prxoy", "did you mean kube-system/proxy?"},
		{"", "web-node", "did you mean default/web-node-1?"},
		{"", "../default/db", "not found"},
		{"", "default%2Fdb", "not found"},
		{"", "default/db/../proxy", "not found"},
		{"", "deploy/web", `pod "deploy/web" not found; did you mean default/web-node-1?`},
		{"", strings.Repeat("x", 1<<20), "not found"},
	} {
		p, err := findPod(pods, c.namespace, c.name)
		switch {
		case err == nil && string(p.UID) != c.want:
			t.Errorf("%s %.40q is %s, want %s", c.namespace, c.name, p.UID, c.want)
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s %.40q: %v, want %q", c.namespace, c.name, err, c.want)
		}
	}
}

func TestDefaultContainerIsTheAnnotatedOrTheFirst(t *testing.T) {
	p := aPod("default/web", "app", "log")
	p.Spec.InitContainers = []corev1.Container{{Name: "setup"}}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	annotated := p
	annotated.Annotations = map[string]string{defaultContainer: "log"}
	single := aPod("default/one", "only")
	for _, c := range []struct {
		pod              *corev1.Pod
		name, want, note string
	}{
		{&p, "", "app", "Defaulted container \"app\" out of: app, log, debug (ephem), setup (init)\n"},
		{&p, "setup", "setup", ""},
		{&p, "debug", "debug", ""},
		{&p, "App", `container "App" not found in pod default/web: it has app, log, debug (ephem), setup (init)`, ""},
		{&annotated, "", "log", ""},
		{&annotated, "app", "app", ""},
		{&single, "", "only", ""},
		{&corev1.Pod{}, "", "has no containers", ""},
	} {
		var notes bytes.Buffer
		got, err := containerOf(c.pod, c.name, &notes)
		if err != nil {
			got = err.Error()
			if exitCode(err) != exitNotFound {
				t.Errorf("%q: exit code %d", c.name, exitCode(err))
			}
		}
		if !strings.Contains(got, c.want) || notes.String() != c.note {
			t.Errorf("%q: %s with note %q, want %s with %q", c.name, got, notes.String(), c.want, c.note)
		}
	}
	if _, err := containerOf(&p, "", nil); err != nil {
		t.Error(err)
	}
}

func TestContainerThatDoesNotRunIsNamedWithItsReason(t *testing.T) {
	state := func(phase corev1.PodPhase, s corev1.ContainerState) corev1.Pod {
		p := aPod("default/web", "app")
		p.Status.Phase, p.Status.ContainerStatuses[0].State = phase, s
		return p
	}
	waits := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	young := state(corev1.PodPending, corev1.ContainerState{})
	young.Status.ContainerStatuses = nil
	for _, c := range []struct {
		pod      corev1.Pod
		starting bool
		want     string
	}{
		{aPod("default/web", "app"), false, ""},
		{young, true, "does not run yet"},
		{state(corev1.PodPending, waits("ContainerCreating", "")), true, "(ContainerCreating)"},
		{state(corev1.PodPending, waits("ImagePullBackOff", "no such image")), false, "(ImagePullBackOff): no such image"},
		{state(corev1.PodRunning, waits("CrashLoopBackOff", "back-off 10s")), false, "(CrashLoopBackOff): back-off 10s"},
		{state(corev1.PodRunning, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 3, Reason: "Error"}}), false, "it ended with exit code 3 (Error)"},
		{state(corev1.PodSucceeded, corev1.ContainerState{}), false, "its phase is Succeeded"},
	} {
		starting, err := whyNotRunning(&c.pod, "app")
		text := ""
		if err != nil {
			text = err.Error()
		}
		if starting != c.starting || (c.want == "") != (err == nil) || !strings.Contains(text, c.want) {
			t.Errorf("%v %q, want %v %q", starting, text, c.starting, c.want)
		}
	}
}

func TestStartingContainerIsWaitedFor(t *testing.T) {
	creating := aPod("default/web", "app")
	creating.Status.Phase = corev1.PodPending
	creating.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	a, errs := testApp()
	tg := a.targetFlags(&cobra.Command{})
	tg.wait = time.Minute
	tg.socket = listPods(t, []corev1.Pod{creating}, []corev1.Pod{creating}, []corev1.Pod{aPod("default/web", "app")})
	p, container, err := tg.running(t.Context(), tg.client(), "web")
	must.OK(t, err)
	if p.Name != "web" || container != "app" || strings.Count(errs.String(), "waiting at most 1m0s") != 1 {
		t.Errorf("%s, container %s, notes %q", p.Name, container, errs)
	}
	tg.wait, tg.socket = 0, listPods(t, []corev1.Pod{creating})
	if _, _, err := tg.running(t.Context(), tg.client(), "web"); err == nil ||
		!strings.Contains(err.Error(), "ContainerCreating") {
		t.Errorf("without waiting: %v", err)
	}
	tg.wait = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := tg.running(ctx, tg.client(), "web"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestSocketsWithoutAnAgentEndWithTheirExitCode(t *testing.T) {
	a, _ := testApp()
	tg := a.targetFlags(&cobra.Command{})
	dead := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", dead)
	must.OK(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must.OK(t, l.Close())
	garbage := serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>"))
	}))
	refuses := serveSocket(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not today", http.StatusForbidden)
	}))
	for _, c := range []struct {
		socket string
		code   int
		want   string
	}{
		{filepath.Join(t.TempDir(), "none"), exitNoAgent, "start it with `journalet run`"},
		{dead, exitNoAgent, "no agent listens"},
		{garbage, exitError, "no list of pods"},
		{refuses, exitError, "not today"},
	} {
		tg.socket = c.socket
		_, err := tg.pod(t.Context(), tg.client(), "web")
		if err == nil || exitCode(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d, %v; want %d, %q", c.socket, exitCode(err), err, c.code, c.want)
		}
	}
}

func TestPodsAndContainersAreCompleted(t *testing.T) {
	a, _ := testApp()
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	tg := a.targetFlags(cmd)
	tg.containerFlag(cmd)
	tg.socket = listPods(t, []corev1.Pod{aPod("b/web", "app", "log"), aPod("a/web", "x"), aPod("a/db", "db")})
	all := func(got []string, _ cobra.ShellCompDirective) string { return strings.Join(got, " ") }
	for _, c := range []struct{ got, want string }{
		{all(tg.completePods(cmd, nil, "")), "db web"},
		{all(tg.completeNamespaces(cmd, nil, "")), "a b"},
		{all(tg.completeContainers(cmd, []string{"b/web"}, "")), "app log"},
		{all(tg.completeContainers(cmd, []string{"none"}, "")), ""},
	} {
		if c.got != c.want {
			t.Errorf("completed %q, want %q", c.got, c.want)
		}
	}
	tg.namespace = "b"
	if got := all(tg.completePods(cmd, nil, "")); got != "web" {
		t.Errorf("in namespace b: %q", got)
	}
}
