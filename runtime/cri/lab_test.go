//go:build integration

package cri_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/test/must"
)

// newLab returns a rig on the real runtime at JOURNALET_TEST_CRI_ENDPOINT, which make integration sets. It removes what
// the pod leaves behind at the end.
func newLab(t *testing.T, drain time.Duration) *rig {
	t.Helper()
	endpoint := os.Getenv("JOURNALET_TEST_CRI_ENDPOINT")
	if endpoint == "" {
		t.Fatal("JOURNALET_TEST_CRI_ENDPOINT is not set: run make integration, or see CONTRIBUTING.md")
	}
	conn, err := grpc.NewClient(endpoint, append(cri.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r := &rig{t: t, conn: conn, dir: t.TempDir()}
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	r.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lab-web", Namespace: "default", UID: uid},
		Spec: corev1.PodSpec{
			DNSPolicy: corev1.DNSNone, Volumes: []corev1.Volume{{Name: "disk", VolumeSource: emptyDir}},
			Containers: []corev1.Container{{
				Name: "main", Image: busybox,
				Command: []string{"sh", "-c", "trap 'exit 7' TERM; while :; do sleep 0.1; done"},
			}},
		},
	}
	agent, logs, links := "lab-"+t.Name(), filepath.Join(r.dir, "logs"), filepath.Join(r.dir, "links")
	r.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.driver = cri.New(cri.Options{
		Timeouts: cri.Timeouts{Drain: drain},
		Conn:     conn, Node: "node-1", Owner: cri.Owner{AgentID: agent},
		PodLogDir: logs, ContainerLogDir: links, Resources: cri.Resources{MemoryCapacity: 16 << 30},
		Log:     r.log,
		Hash:    func(*corev1.Container) string { return "cafe" },
		Volumes: volume.New(volume.Options{RootDir: filepath.Join(r.dir, "root"), PodLogDir: logs, ContainerLogDir: links}),
	})
	r.manifest = func(context.Context, string) (*corev1.Pod, error) { return r.pod, nil }
	r.performs(r.driver)
	t.Cleanup(func() {
		for _, s := range r.sandboxes() {
			if s.GetAnnotations()[cri.AnnotationAgent] == agent {
				r.done("cleanup", removeSandbox(s.GetId()), true)
			}
		}
		r.done("cleanup", cleanPod("lab-web"), true)
	})
	return r
}

func TestLabFindsObjectsOfCrashedAgent(t *testing.T) {
	r := newLab(t, time.Millisecond)
	r.done("v", setUpVolumes(), false)
	for i, d := range []time.Duration{5 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond,
		400 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		req := runSandbox(uint32(i))
		req.PodUid = uid
		intent := "crash" + d.String()
		first := r.works.Perform(ctx, intent, "pod/"+uid, req, false)
		cancel()
		sandbox := r.done(intent, runSandbox(uint32(i)), true).GetSandboxId()
		n := 0
		for _, s := range r.sandboxes() {
			if s.GetAnnotations()[cri.AnnotationIntent] == intent {
				n++
			}
		}
		if n != 1 {
			t.Errorf("after %s: %d sandboxes of one intent", d, n)
		}
		// Only the creation is canceled here, not the start: containerd 2.4.2 loses a task whose start is canceled at the
		// wrong moment, and then can neither start nor remove the container.
		for j, d := range []time.Duration{3 * time.Millisecond, 6 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			attempt, intent := uint32(10*i+j), intent+d.String()
			req := startContainer(sandbox, attempt)
			req.PodUid = uid
			r.works.Perform(ctx, intent, "pod/"+uid, req, false)
			cancel()
			out := r.perform(intent, startContainer(sandbox, attempt), true)
			resp, err := runtimeapi.NewRuntimeServiceClient(r.conn).ContainerStatus(context.Background(),
				&runtimeapi.ContainerStatusRequest{ContainerId: out.GetContainerId()})
			must.OK(t, err)
			// containerd cancels a start whose client is gone, and reports it; that is the only other possible end.
			want := runtimeapi.ContainerState_CONTAINER_RUNNING
			if out.GetError() == journaletv1.CallError_CALL_ERROR_START {
				want = runtimeapi.ContainerState_CONTAINER_EXITED
			}
			if got := resp.GetStatus().GetState(); got != want {
				t.Errorf("container of %s: %s after %v", intent, got, out)
			}
		}
		t.Logf("first: %v", first)
		r.done("rm"+intent, removeSandbox(sandbox), false)
	}
}

func TestLabOrderlyStopLeavesNoFailedStart(t *testing.T) {
	r := newLab(t, time.Minute) // a start may take a while on a busy machine, and ends the wait
	r.done("v", setUpVolumes(), false)
	sandbox := r.done("s", runSandbox(0), false).GetSandboxId()
	for i := range uint32(8) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(5+10*i)*time.Millisecond)
		req, intent := startContainer(sandbox, i), fmt.Sprint("c", i)
		req.PodUid = uid
		if out := r.works.Perform(ctx, intent, "pod/"+uid, req, false); out == nil {
			r.done(intent, req, true)
		} else if out.GetError() != 0 {
			t.Errorf("outcome %v", out)
		}
		cancel()
	}
	for _, c := range r.containers() {
		if c.GetPodSandboxId() == sandbox && c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("attempt %d: %s", c.GetMetadata().GetAttempt(), c.GetState())
		}
	}
}

func TestLabDistinguishesFailedStarts(t *testing.T) {
	yes := true
	r := newLab(t, time.Millisecond)
	r.done("v", setUpVolumes(), false)
	sandbox := r.done("s", runSandbox(0), false).GetSandboxId()
	c := &r.pod.Spec.Containers[0]
	valid := *c
	c.Command = []string{"/no/such/binary"}
	out := r.fails("c0", startContainer(sandbox, 0), journaletv1.CallError_CALL_ERROR_START, "no such file")
	if out.GetContainerId() == "" {
		t.Error("no container id")
	}
	*c = valid
	c.Image = "docker.io/library/none:1"
	r.fails("c1", startContainer(sandbox, 1), journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT, "none:1")
	*c = valid
	c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: &yes}
	r.fails("c2", startContainer(sandbox, 2), journaletv1.CallError_CALL_ERROR_CONFIG, "image will run as root")
	*c = valid
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "disk", MountPath: "/proc/x"})
	r.fails("c3", startContainer(sandbox, 3), journaletv1.CallError_CALL_ERROR_START, "")
	r.fails("c4", startContainer("0123456789", 4), journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "gone")
	r.performs(r.driver.WithReservedName(200 * time.Millisecond))
	r.fails("other", runSandbox(0), journaletv1.CallError_CALL_ERROR_RUNTIME, "created by another call")
	r.fails("p", pullImage("127.0.0.1:1/none:1"), journaletv1.CallError_CALL_ERROR_RUNTIME, "refused")
}
