package kubelet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/runtime/pod/logs"
	"github.com/journalet/journalet/test/must"
)

// fakeLogs prints the id of the instance and what is requested of its log.
type fakeLogs struct {
	queries []logs.Query
	ids     []string
	err     error
	report  logs.Report
	read    func(ctx context.Context, w io.Writer) error
}

func (f *fakeLogs) Read(ctx context.Context, id string, q logs.Query, w io.Writer) (logs.Report, error) {
	f.ids, f.queries = append(f.ids, id), append(f.queries, q)
	if f.err != nil {
		return logs.Report{}, f.err
	}
	if _, err := w.Write(nil); err != nil {
		return logs.Report{}, err
	}
	if f.read != nil {
		return f.report, f.read(ctx, w)
	}
	_, err := io.WriteString(w, "log of "+id)
	return f.report, err
}

// logged is a pod with containers in all states.
func logged() *corev1.Pod {
	p := webPod()
	ended := &corev1.ContainerStateTerminated{ContainerID: "containerd://old"}
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	add := func(name string, state, last corev1.ContainerState) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, State: state, LastTerminationState: last, ContainerID: "containerd://new",
		})
	}
	none := corev1.ContainerState{}
	add("runs", runs, none)
	add("runs-again", runs, corev1.ContainerState{Terminated: ended})
	add("ended", corev1.ContainerState{Terminated: ended}, none)
	add("never-ran", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}, none)
	add("backs-off", waits("CrashLoopBackOff"), corev1.ContainerState{Terminated: ended})
	add("creating", waits("ContainerCreating"), none)
	add("pulls", waits("ErrImagePull"), none)
	add("backs-off-pull", waits("ImagePullBackOff"), none)
	add("none", none, none)
	p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: runs, ContainerID: "containerd://i"}}
	return p
}

func newLogNode(t *testing.T, f *fakeLogs, change ...func(*Options)) *node {
	return newNode(t, func(o *Options) {
		o.Pods, o.Logs = fakePods{logged()}, f
		for _, c := range change {
			c(o)
		}
	})
}

// Codes and messages are the kubelet's.
func TestContainerLogsAnswersAsTheKubelet(t *testing.T) {
	n := newLogNode(t, &fakeLogs{})
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"web/runs":                     {200, "log of new"},
		"web/init":                     {200, "log of i"},
		"web/runs-again?previous=true": {200, "log of old"},
		"web/ended":                    {200, "log of old"},
		"web/backs-off":                {200, "log of old"},
		"web/runs?previous=1":          {400, `previous terminated container "runs" in pod "web" not found`},
		"web/never-ran":                {400, `container "never-ran" in pod "web" is terminated`},
		"web/creating":                 {400, `container "creating" in pod "web" is waiting to start: ContainerCreating`},
		"web/pulls":                    {400, `container "pulls" in pod "web" is waiting to start: image can't be pulled`},
		"web/backs-off-pull": {400, `container "backs-off-pull" in pod "web" is waiting to start: ` +
			`trying and failing to pull image`},
		"web/none":                   {400, `container "none" in pod "web" is waiting to start - no logs yet`},
		"web/shell":                  {400, `container "shell" in pod "web" is not available`},
		"web/other":                  {404, `container "other" not found in pod "web"`},
		"db/runs":                    {404, `pod "db" does not exist`},
		"web/runs?tailLines=-1":      {422, `{"message": "Invalid request."}`},
		"web/runs?limitBytes=0":      {422, `{"message": "Invalid request."}`},
		"web/runs?sinceSeconds=0":    {422, `{"message": "Invalid request."}`},
		"web/runs?stream=Stdin":      {422, `{"message": "Invalid request."}`},
		"web/runs?tailLines=x":       {400, `{"message": "Unable to decode query."}`},
		"web/runs?sinceTime=tuesday": {400, `{"message": "Unable to decode query."}`},
		"web/runs?tail=all":          {200, "log of new"},
		"web/runs?sinceSeconds=5&sinceTime=2026-11-21T10:00:00Z": {422, `{"message": "Invalid request."}`},
		"web/runs?stream=Stderr&tailLines=1":                     {422, `{"message": "Invalid request."}`},
	} {
		code, text := n.do(http.MethodGet, "/containerLogs/default/"+path)
		if code != want.code || text != want.text {
			t.Errorf("%s: %d %q, want %d %q", path, code, text, want.code, want.text)
		}
	}
}

func TestContainerLogsPassesTheOptionsOn(t *testing.T) {
	f := &fakeLogs{}
	n := newLogNode(t, f)
	n.do(http.MethodGet, "/containerLogs/default/web/runs?follow=true&timestamps=true&tail=7&limitBytes=9"+
		"&sinceTime=2026-11-21T10:00:00Z")
	n.do(http.MethodGet, "/containerLogs/default/web/runs?follow=false&stream=Stderr&sinceSeconds=9223372036854775807")
	q := f.queries[0]
	if !q.Follow || !q.Timestamps || *q.Tail != 7 || *q.Limit != 9 || !q.Stdout || !q.Stderr ||
		!q.Since.Equal(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", q)
	}
	if q = f.queries[1]; q.Follow || q.Stdout || !q.Stderr || q.Since.Year() > 1930 || q.Since.Year() < 1900 {
		t.Errorf("%+v", q)
	}
	started, ended := n.record.last(t, 0)
	if started.GetKind() != journaletv1.SessionKind_SESSION_KIND_LOGS || started.GetContainer() != "runs" ||
		ended.GetMessage() != "" {
		t.Errorf("recorded %v, %v", started, ended)
	}
}

func TestLogThatCannotBeOpenedIsAnError(t *testing.T) {
	n := newLogNode(t, &fakeLogs{err: errors.New("open the log: no such file")})
	if code, text := n.do(http.MethodGet, "/containerLogs/default/web/runs"); code != 400 ||
		text != "open the log: no such file" {
		t.Errorf("%d %q", code, text)
	}
	if _, ended := n.record.last(t, 0); ended.GetMessage() != failedNoLog {
		t.Errorf("recorded %v", ended)
	}
}

func TestWhatWasLeftOutIsInATrailer(t *testing.T) {
	n := newLogNode(t, &fakeLogs{report: logs.Report{Broken: 3, Problems: []error{errors.New("a\nb\x1b")}}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		local.BaseURL+"/containerLogs/default/web/runs", http.NoBody)
	must.OK(t, err)
	resp, err := n.client.HTTP.Do(req)
	must.OK(t, err)
	text, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	must.OK(t, resp.Body.Close())
	want := "a;b?;3 records of the log are broken and were left out"
	if got := resp.Trailer.Get(LogProblemsTrailer); got != want || string(text) != "log of new" {
		t.Errorf("%q, %q, want %q", text, got, want)
	}
}

// A follower gets the response's begin at once, and its client's end ends it.
func TestFollowerEndsWithItsClient(t *testing.T) {
	left := make(chan struct{})
	n := newLogNode(t, &fakeLogs{read: func(ctx context.Context, _ io.Writer) error {
		<-ctx.Done()
		close(left)
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		local.BaseURL+"/containerLogs/default/web/runs?follow=true", http.NoBody)
	must.OK(t, err)
	resp, err := n.client.HTTP.Do(req)
	must.OK(t, err)
	cancel()
	<-left
	_ = resp.Body.Close()
	if _, ended := n.record.last(t, 0); ended.GetMessage() != failedClient {
		t.Errorf("recorded %v", ended)
	}
}

func TestClientThatStallsIsLeft(t *testing.T) {
	flood := strings.Repeat("x", 64<<10)
	n := newLogNode(t, &fakeLogs{read: func(_ context.Context, w io.Writer) error {
		for {
			if _, err := io.WriteString(w, flood); err != nil {
				return err
			}
		}
	}}, func(o *Options) { o.Limits.Idle = 50 * time.Millisecond })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		local.BaseURL+"/containerLogs/default/web/runs?follow=true", http.NoBody)
	must.OK(t, err)
	resp, err := n.client.HTTP.Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	if _, ended := n.record.last(t, 0); ended.GetMessage() != failedClient {
		t.Errorf("recorded %v", ended)
	}
}
