//go:build integration

package integration

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/node"
)

// examples is the directory of the manifests that `make run` runs.
const examples = "../../deploy/pods"

func TestExamplePodsDoWhatTheirCommentsSay(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) != 5 {
		t.Fatalf("want the 5 example pods, have %v, %v", files, err)
	}
	for _, f := range files {
		a.Put(filepath.Base(f), readFile(t, f))
	}
	a.start()
	// It waits 10 s, so that nothing may come before.
	first := a.pod("crasher", "waits for its second restart", func(p *corev1.Pod) bool {
		return waiting("crasher", "CrashLoopBackOff")(p) && container(p, "crasher").RestartCount == 1
	})
	if c := container(first, "crasher"); !strings.Contains(c.State.Waiting.Message, "back-off 10s") || c.Ready {
		t.Errorf("crasher's container waits as %+v", c)
	}

	web := a.pod("web", "ready", ready)
	if page := httpGet(t, "http://"+web.Status.PodIP+":8080/"); !strings.Contains(page, "Hello from Journalet: web-"+a.Node) {
		t.Errorf("web serves %q", page)
	}
	pair := a.pod("pair", "ready", ready)
	a.logged(pair, "client", "got: ")
	for _, c := range pair.Status.ContainerStatuses {
		if c.RestartCount != 0 || c.State.Running == nil || c.ImageID == "" ||
			!strings.HasPrefix(c.ContainerID, setup.Runtime.Name+"://") {
			t.Errorf("pair's container: %+v", c)
		}
	}

	job := a.pod("job", "succeeded", phase(corev1.PodSucceeded))
	if end := container(job, "job").State.Terminated; end == nil || end.Reason != "Completed" || end.ExitCode != 0 {
		t.Errorf("job's container: %+v", container(job, "job"))
	}
	if n := strings.Count(a.log(job, "job"), "of 5"); n != 5 {
		t.Errorf("job's log has %d lines, want 5", n)
	}
	for kind, want := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodScheduled: corev1.ConditionTrue, corev1.PodInitialized: corev1.ConditionTrue,
		corev1.PodReady: corev1.ConditionFalse, corev1.ContainersReady: corev1.ConditionFalse,
	} {
		if is := condition(job, kind); is != want {
			t.Errorf("job's condition %s is %q, want %q", kind, is, want)
		}
		if is := condition(web, kind); is != corev1.ConditionTrue {
			t.Errorf("web's condition %s is %q, want True", kind, is)
		}
	}

	prepared := a.pod("prepared", "succeeded", phase(corev1.PodSucceeded))
	if n := strings.Count(a.log(prepared, "work"), "read: prepared by fetch"); n != 3 {
		t.Errorf("prepared's log has %d lines, want 3", n)
	}
	for _, c := range prepared.Status.InitContainerStatuses {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 || c.RestartCount != 0 {
			t.Errorf("prepared's init container: %+v", c)
		}
	}

	// Its container runs for 2 s at a time.
	eventually(t, settle, "`journalet pods` to print all states", func() error {
		out, _, code := a.CLI("pods")
		for _, want := range []string{"Running", "Completed", "CrashLoopBackOff"} {
			if code != 0 || !strings.Contains(out, want) {
				return fmt.Errorf("no %s (status %d):\n%s", want, code, out)
			}
		}
		return nil
	})
	second := a.pod("crasher", "restarted twice", func(p *corev1.Pod) bool {
		return container(p, "crasher").RestartCount >= 2
	})
	last := container(second, "crasher").LastTerminationState.Terminated
	if last == nil || last.ExitCode != 1 || last.Reason != "Error" {
		t.Errorf("crasher's last state: %+v", container(second, "crasher"))
	}
	if second.Status.Phase != corev1.PodRunning {
		t.Errorf("crasher's phase is %s, want Running", second.Status.Phase)
	}
}

func httpGet(t *testing.T, url string) string {
	t.Helper()
	var body []byte
	eventually(t, node.Soon, "a response from "+url, func() error {
		c := http.Client{Timeout: 2 * time.Second}
		r, err := c.Get(url)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		body, err = io.ReadAll(io.LimitReader(r.Body, 1<<20))
		return err
	})
	return string(body)
}
