package agent

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/runtime/api/podsapi"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/must"
)

// podsOf runs an agent until the test ends, and returns a client of its pods.
func podsOf(ctx context.Context, t *testing.T, cfg *config.Config) api.PodsClient {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		must.OK(t, <-ended)
	})
	conn, err := plugins.NewConn(filepath.Join(cfg.RootDir, podsapi.Dir, podsapi.SocketFile), 1<<20)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return api.NewPodsClient(conn)
}

// An agent of the node sees a pod come, change and go: ADDED is the first that it sees of the pod, DELETED the last,
// and what is between has one direction.
func TestAgentsOfTheNodeSeeAPodComeChangeAndGo(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(cancel)
	cfg := simulatedConfig(t)
	c := podsOf(ctx, t, cfg)
	for {
		_, err := c.ListPods(ctx, &api.ListPodsRequest{}, grpc.WaitForReady(true))
		if status.Code(err) == codes.FailedPrecondition || status.Code(err) == codes.ResourceExhausted {
			continue // the sources are not read yet
		}
		must.OK(t, err)
		break
	}
	stream, err := c.WatchPods(ctx, &api.WatchPodsRequest{})
	must.OK(t, err)
	next := func() (api.EventType, *corev1.Pod) {
		e, err := stream.Recv()
		must.OK(t, err)
		p := &corev1.Pod{}
		must.OK(t, p.Unmarshal(e.GetPod()))
		return e.GetType(), p
	}
	if kind, _ := next(); kind != api.EventType_INITIAL_SYNC_COMPLETE {
		t.Fatalf("of no pods the first event is %s", kind)
	}
	file := filepath.Join(cfg.StaticPodPath, "web")
	must.OK(t, os.WriteFile(file, []byte(strings.Replace(podRunning("web", "Always", "sleep 1000"),
		"spec:", "spec:\n  terminationGracePeriodSeconds: 1", 1)), 0o600))
	kind, first := next()
	if kind != api.EventType_ADDED || first.Name != "web-node-1" || first.Status.Phase != corev1.PodPending {
		t.Fatalf("the first event is %s of %s, %s", kind, first.Name, first.Status.Phase)
	}
	for last := first; ; {
		kind, p := next()
		if p.UID != first.UID || p.Name != first.Name {
			t.Fatalf("%s of %s, %s", kind, p.Name, p.UID)
		}
		if kind == api.EventType_DELETED {
			if last.DeletionTimestamp == nil {
				t.Error("the pod is gone, and was never about to go")
			}
			break
		}
		if kind != api.EventType_MODIFIED || last.DeletionTimestamp != nil && p.DeletionTimestamp == nil ||
			last.Status.Phase == corev1.PodRunning && p.Status.Phase == corev1.PodPending {
			t.Fatalf("%s: from %s, %v to %s, %v", kind, last.Status.Phase, last.DeletionTimestamp, p.Status.Phase,
				p.DeletionTimestamp)
		}
		if ready(p) && !ready(last) {
			got, err := c.GetPod(ctx, &api.GetPodRequest{PodUID: string(p.UID)})
			must.OK(t, err)
			same := &corev1.Pod{}
			must.OK(t, same.Unmarshal(got.GetPod()))
			if !ready(same) || len(same.Spec.Containers) != 1 {
				t.Errorf("got %v", same)
			}
			must.OK(t, os.Remove(file))
		}
		last = p
	}
	all, err := c.ListPods(ctx, &api.ListPodsRequest{})
	must.OK(t, err)
	if n := len(all.GetPods()); n != 0 {
		t.Errorf("%d pods are listed after the last has gone", n)
	}
}

func ready(p *corev1.Pod) bool {
	return condition(&p.Status, corev1.PodReady).Status == corev1.ConditionTrue
}

func TestPodsAPIIsNotServedIfItsGateIsOff(t *testing.T) {
	cfg := simulatedConfig(t)
	cfg.NoPodsAPI, cfg.Once = true, true
	must.OK(t, Run(t.Context(), cfg, slog.New(slog.DiscardHandler)))
	if _, err := os.Stat(filepath.Join(cfg.RootDir, podsapi.Dir)); !os.IsNotExist(err) {
		t.Errorf("there is a directory for its socket: %v", err)
	}
	cfg.NoPodsAPI = false
	must.OK(t, Run(t.Context(), cfg, slog.New(slog.DiscardHandler)))
	if info, err := os.Stat(filepath.Join(cfg.RootDir, podsapi.Dir)); err != nil || info.Mode().Type() != fs.ModeDir {
		t.Errorf("there is no directory for its socket: %v", err)
	}
}
