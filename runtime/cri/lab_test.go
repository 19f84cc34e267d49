//go:build integration

package cri_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/health"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/test/must"
)

// newLab returns a rig on the real runtime at JOURNALET_TEST_CRI_ENDPOINT, which make integration sets. It removes what
// the pod leaves behind at the end.
func newLab(t *testing.T, drain time.Duration) (*rig, chan *journaletv1.PodObserved) {
	t.Helper()
	endpoint := os.Getenv("JOURNALET_TEST_CRI_ENDPOINT")
	if endpoint == "" {
		t.Fatal("JOURNALET_TEST_CRI_ENDPOINT is not set: run make integration, or see CONTRIBUTING.md")
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r := &rig{t: t, conn: conn, dir: t.TempDir()}
	yes, grace, limit := true, int64(5), resource.MustParse("1Mi")
	r.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lab-web", Namespace: "default", UID: uid,
			Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSNone,
			DNSConfig:   &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53"}, Searches: []string{"lab.example"}},
			HostAliases: []corev1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"nine"}}},
			Volumes: []corev1.Volume{
				{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "mem", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
					Medium: corev1.StorageMediumMemory, SizeLimit: &limit,
				}}},
			},
			Containers: []corev1.Container{{
				Name: "main", Image: busybox,
				Command: []string{"sh", "-c", `trap 'echo bye; echo -n "said $WORD" >/dev/termination-log; exit 7' TERM
					echo "word=$WORD ip=$IP host=$(hostname) uid=$(id -u)"; cat /etc/hosts /etc/resolv.conf; df -k /mem | tail -1; touch /disk/f /mem/f
					echo ready; while :; do sleep 0.1; done`},
				Env: []corev1.EnvVar{{Name: "A", Value: "hello"}, {Name: "WORD", Value: "$(A)-there"},
					{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
				Ports:                  []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
				Resources:              corev1.ResourceRequirements{Requests: list("50m", "16Mi"), Limits: list("500m", "64Mi")},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				VolumeMounts: []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}, {Name: "mem", MountPath: "/mem"}},
				SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes,
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			}},
		},
	}
	agent := "lab-" + t.Name()
	logs, links := filepath.Join(r.dir, "logs"), filepath.Join(r.dir, "links")
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.driver = cri.New(cri.Options{
		Timeouts: cri.Timeouts{Drain: drain},
		Conn:     conn, Node: "node-1", AgentID: agent, PodLogDir: logs, ContainerLogDir: links, MemoryCapacity: 16 << 30,
		Log:      log,
		Manifest: func(context.Context, string) (*corev1.Pod, error) { return r.pod, nil },
		Hash:     func(*corev1.Container) string { return "cafe" },
		Volumes:  volume.New(volume.Options{RootDir: filepath.Join(r.dir, "root"), PodLogDir: logs, ContainerLogDir: links}),
	})
	observed := make(chan *journaletv1.PodObserved, 100)
	p := pleg.New(pleg.Options{
		Conn: conn, AgentID: agent, RootDir: filepath.Join(r.dir, "root"), PodLogDir: logs, Log: log,
		Sink: func(_ context.Context, o *journaletv1.PodObserved) error { observed <- o; return nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		for _, s := range r.sandboxes() {
			if s.GetAnnotations()[cri.AnnotationAgent] == agent {
				r.done("cleanup", removeSandbox(s.GetId()), true)
			}
		}
		r.done("cleanup", cleanPod("lab-web"), true)
	})
	return r, observed
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}
}

func waitFor(
	t *testing.T, observed chan *journaletv1.PodObserved, what string, ok func(*journaletv1.PodObserved) bool,
) *journaletv1.PodObserved {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case o := <-observed:
			t.Logf("observed: %v", o)
			if ok(o) {
				return o
			}
		case <-deadline:
			t.Fatalf("never observed: %s", what)
		}
	}
}

func inState(attempt uint32, state journaletv1.ContainerState) func(*journaletv1.PodObserved) bool {
	return func(o *journaletv1.PodObserved) bool {
		for _, c := range o.GetContainers() {
			if c.GetAttempt() == attempt && c.GetState() == state {
				return true
			}
		}
		return false
	}
}

func TestLabRunsAPod(t *testing.T) {
	r, observed := newLab(t, time.Millisecond)
	h, err := health.New(health.Options{Conn: r.conn,
		Sink: func(context.Context, *journaletv1.RuntimeHealthChanged) error { return nil }}).Check(t.Context())
	if err != nil || !h.GetRuntimeReady() || !h.GetNetworkReady() {
		t.Fatalf("health %v, %v", h, err)
	}
	r.done("v", setUpVolumes(), false)
	sandbox := r.done("1.1.pod/u.0", runSandbox(0), false).GetSandboxId()
	o := waitFor(t, observed, "sandbox", func(o *journaletv1.PodObserved) bool {
		return len(o.GetSandboxes()) == 1 && len(o.GetSandboxes()[0].GetIps()) > 0
	})
	req := startContainer(sandbox, 0)
	req.GetStartContainer().PodIps = o.GetSandboxes()[0].GetIps()
	id := r.done("1.2.pod/u.0", req, false).GetContainerId()
	waitFor(t, observed, "running", inState(0, journaletv1.ContainerState_CONTAINER_STATE_RUNNING))
	// A repeated call finds its object and creates no other.
	if again := r.done("1.1.pod/u.0", runSandbox(0), true).GetSandboxId(); again != sandbox {
		t.Errorf("sandbox %s, then %s", sandbox, again)
	}
	if again := r.done("1.2.pod/u.0", req, true).GetContainerId(); again != id {
		t.Errorf("container %s, then %s", id, again)
	}
	link := filepath.Join(r.dir, "links", "lab-web_default_main-"+id+".log")
	text := ""
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(text, "ready"); {
		if time.Now().After(deadline) {
			t.Fatalf("the log never contains ready: %q", text)
		}
		b, _ := os.ReadFile(link)
		text = string(b)
	}
	ip := o.GetSandboxes()[0].GetIps()[0]
	for _, want := range []string{"word=hello-there ip=" + ip + " host=lab-web uid=0", ip + "\tlab-web", "192.0.2.9\tnine",
		"nameserver 192.0.2.53", "search lab.example", " 1024 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the log:\n%s", want, text)
		}
	}
	r.done("1.3.pod/u.0", stopContainer(id, 5*time.Second), false)
	c := waitFor(t, observed, "exited", inState(0, journaletv1.ContainerState_CONTAINER_STATE_EXITED)).GetContainers()[0]
	if c.GetExitCode() != 7 || c.GetMessage() != "said hello-there" || c.GetReason() != "Error" || c.GetImage() == "" ||
		c.GetHash() != "cafe" {
		t.Errorf("container %v", c)
	}
	second := startContainer(sandbox, 1)
	r.done("1.4.pod/u.0", second, false)
	waitFor(t, observed, "restarted", inState(1, journaletv1.ContainerState_CONTAINER_STATE_RUNNING))
	r.done("1.5.pod/u.0", removeContainer(id), false)
	if _, err := os.Lstat(link); err == nil {
		t.Error("the link to the log of a removed container is left")
	}
	r.done("1.6.pod/u.0", removeSandbox(sandbox), false)
	waitFor(t, observed, "gone",
		func(o *journaletv1.PodObserved) bool { return len(o.GetSandboxes())+len(o.GetContainers()) == 0 })
	r.done("1.7.pod/u.0", cleanPod("lab-web"), false)
	for _, gone := range []string{"root/pods/" + uid, "logs/default_lab-web_" + uid} {
		if exists(filepath.Join(r.dir, gone)) {
			t.Errorf("%s is left", gone)
		}
	}
}

func TestLabFindsObjectsOfCrashedAgent(t *testing.T) {
	r, _ := newLab(t, time.Millisecond)
	r.done("v", setUpVolumes(), false)
	for i, d := range []time.Duration{5 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond,
		400 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		req := runSandbox(uint32(i))
		req.PodUid = uid
		intent := "crash" + d.String()
		first := r.driver.Perform(ctx, intent, "pod/"+uid, req, false)
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
			r.driver.Perform(ctx, intent, "pod/"+uid, req, false)
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
	r, _ := newLab(t, 10*time.Second)
	r.done("v", setUpVolumes(), false)
	sandbox := r.done("s", runSandbox(0), false).GetSandboxId()
	for i := range uint32(8) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(5+10*i)*time.Millisecond)
		req, intent := startContainer(sandbox, i), fmt.Sprint("c", i)
		req.PodUid = uid
		if out := r.driver.Perform(ctx, intent, "pod/"+uid, req, false); out == nil {
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
	r, observed := newLab(t, time.Millisecond)
	r.done("v", setUpVolumes(), false)
	sandbox := r.done("s", runSandbox(0), false).GetSandboxId()
	c := &r.pod.Spec.Containers[0]
	valid := *c
	c.Command = []string{"/no/such/binary"}
	out := r.fails("c0", startContainer(sandbox, 0), journaletv1.CallError_CALL_ERROR_START, "no such file")
	if out.GetContainerId() == "" {
		t.Error("no container id")
	}
	waitFor(t, observed, "exited", inState(0, journaletv1.ContainerState_CONTAINER_STATE_EXITED))
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
	r.driver = r.driver.WithReservedName(200 * time.Millisecond)
	r.fails("other", runSandbox(0), journaletv1.CallError_CALL_ERROR_RUNTIME, "created by another call")
	r.fails("p", pullImage("127.0.0.1:1/none:1"), journaletv1.CallError_CALL_ERROR_RUNTIME, "refused")
}
