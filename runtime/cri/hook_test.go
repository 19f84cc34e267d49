package cri_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/must"
)

// hooked returns a rig with a running container that has this preStop hook.
func hooked(t *testing.T, handler corev1.LifecycleHandler) (*rig, *journaletv1.RunHook) {
	t.Helper()
	r := newRig(t, nil)
	r.pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &handler}
	started := r.done("c", startContainer(r.sandbox(), 0), false)
	return r, &journaletv1.RunHook{
		Container: "main", ContainerId: started.GetContainerId(), Digest: digest,
		Kind: journaletv1.HookKind_HOOK_KIND_PRE_STOP, Timeout: durationpb.New(10 * time.Second),
	}
}

func (r *rig) hook(h *journaletv1.RunHook) *journaletv1.CallFinished {
	r.t.Helper()
	return r.perform("h", messages.NewCall(h), false)
}

func execHook(command ...string) corev1.LifecycleHandler {
	return corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
}

func TestExecHookRunsAndFailsLikeKubelet(t *testing.T) {
	r, h := hooked(t, execHook("sh", "-c", "echo done > /scratch/hook"))
	if out := r.hook(h); out.GetError() != 0 {
		t.Fatal(out)
	}
	r.pod.Spec.Containers[0].Lifecycle.PreStop = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
		Command: []string{"sh", "-c", "echo out; echo err >&2; exit 3"},
	}}
	out := r.hook(h)
	want := `Exec lifecycle hook for Container "main" in Pod "web_default(uid-1)" failed - error: ` +
		`the command exited with 3, message: "out\nerr\n"`
	if out.GetError() != journaletv1.CallError_CALL_ERROR_HOOK || out.GetMessage() != want {
		t.Errorf("%s\n%q, want\n%q", out.GetError(), out.GetMessage(), want)
	}
}

func TestHookOutputIsBounded(t *testing.T) {
	r, h := hooked(t, execHook("sh", "-c",
		"A=x; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do A=$A$A; done; echo $A; exit 1"))
	out := r.hook(h)
	if n := len(out.GetMessage()); out.GetError() != journaletv1.CallError_CALL_ERROR_HOOK || n != 1<<10 {
		t.Errorf("%s with %d bytes", out.GetError(), n)
	}
}

func TestMessageOfAFailedHookWithholdsCommandAndURL(t *testing.T) {
	for what, handler := range map[string]corev1.LifecycleHandler{
		"exit code": execHook("sh", "-c", "exit 3 # s3cret"),
		"timeout":   execHook("sh", "-c", "sleep 1000 # s3cret"),
		"http": {HTTPGet: &corev1.HTTPGetAction{
			Host: "127.0.0.1", Port: intstr.FromInt32(1), Path: "/s3cret?token=s3cret",
		}},
	} {
		t.Run(what, func(t *testing.T) {
			r, h := hooked(t, handler)
			h.Timeout = durationpb.New(50 * time.Millisecond)
			out := r.hook(h)
			if out.GetError() != journaletv1.CallError_CALL_ERROR_HOOK || strings.Contains(out.GetMessage(), "s3cret") ||
				!strings.Contains(out.GetMessage(), "failed - error: ") {
				t.Errorf("%s: %s", out.GetError(), out.GetMessage())
			}
		})
	}
	t.Run("error of the runtime", func(t *testing.T) {
		r, h := hooked(t, execHook("sh", "-c", "echo s3cret"))
		r.runtime.Inject(sim.Fault{Method: "ExecSync", Times: 1,
			Err: status.Error(codes.Internal, "exec sh -c echo s3cret: no such container")})
		if out := r.hook(h); strings.Contains(out.GetMessage(), "s3cret") ||
			!strings.Contains(out.GetMessage(), "exec sh -c (withheld): no such container") {
			t.Error(out.GetMessage())
		}
	})
}

func TestHookEndsAtTimeout(t *testing.T) {
	for name, handler := range map[string]corev1.LifecycleHandler{
		"exec": execHook("sleep", "1000"), "sleep": {Sleep: &corev1.SleepAction{Seconds: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			r, h := hooked(t, handler)
			h.Timeout = durationpb.New(50 * time.Millisecond)
			if out := r.hook(h); out.GetError() != journaletv1.CallError_CALL_ERROR_HOOK ||
				!strings.Contains(out.GetMessage(), "timeout 50ms") {
				t.Error(out)
			}
			h.Timeout = durationpb.New(0)
			if out := r.hook(h); out.GetError() != journaletv1.CallError_CALL_ERROR_HOOK {
				t.Errorf("with an expired timeout: %v", out)
			}
		})
	}
}

func TestHookOfExitedContainerIsNotDone(t *testing.T) {
	r, h := hooked(t, execHook("true"))
	must.OK(t, r.runtime.Kill(h.GetContainerId(), 1))
	if out := r.hook(h); out.GetError() != journaletv1.CallError_CALL_ERROR_NOT_DONE {
		t.Error(out)
	}
	h.ContainerId = "gone"
	if out := r.hook(h); out.GetError() != journaletv1.CallError_CALL_ERROR_NOT_DONE {
		t.Error(out)
	}
}

func TestHookWaitsForUnavailableRuntime(t *testing.T) {
	r, h := hooked(t, execHook("true"))
	r.runtime.Inject(sim.Fault{Method: "ExecSync", Err: status.Error(codes.Unavailable, "away"), Times: 3})
	if out := r.hook(h); out.GetError() != 0 {
		t.Error(out)
	}
	if n := r.runtime.Calls()["ExecSync"]; n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
}

func TestRunningHookHasNoOutcomeWhenAgentStops(t *testing.T) {
	r, h := hooked(t, execHook("sleep", "1000"))
	h.Timeout = nil
	ctx, cancel := context.WithCancel(context.Background())
	r.runtime.Inject(sim.Fault{Method: "ExecSync", Hang: true, Match: func(any) bool { cancel(); return true }})
	req := &journaletv1.CallRequested{PodUid: uid, Work: &journaletv1.CallRequested_RunHook{RunHook: h}}
	if out := r.works.Perform(ctx, "h", "pod/"+uid, req, false); out != nil {
		t.Error(out)
	}
}

func TestHTTPHookSendsKubeletRequest(t *testing.T) {
	requests := make(chan *http.Request, 4)
	serve := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests <- req
		if req.URL.Path == "/away" {
			http.Redirect(w, req, "http://elsewhere.invalid/", http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusInternalServerError) // any response is a success
	})
	for name, server := range map[string]*httptest.Server{"http": httptest.NewServer(serve),
		"https": httptest.NewTLSServer(serve)} {
		t.Run(name, func(t *testing.T) {
			defer server.Close()
			at, err := url.Parse(server.URL)
			must.OK(t, err)
			port, err := strconv.Atoi(at.Port())
			must.OK(t, err)
			action := &corev1.HTTPGetAction{
				Path: "/a?b=c", Port: intstr.FromString("web"), Scheme: corev1.URIScheme(strings.ToUpper(name)),
				HTTPHeaders: []corev1.HTTPHeader{{Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "Host", Value: "me"},
					{Name: "Accept", Value: ""}},
			}
			r, h := hooked(t, corev1.LifecycleHandler{HTTPGet: action})
			r.pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}
			h.PodIps = []string{at.Hostname()}
			if out := r.hook(h); out.GetError() != 0 {
				t.Fatal(out)
			}
			req := <-requests
			if req.URL.String() != "/a?b=c" || req.Host != "me" || strings.Join(req.Header["X-A"], ",") != "1,2" ||
				req.Header.Get("User-Agent") != "kube-lifecycle/1.37" || req.Header["Accept"] != nil {
				t.Errorf("request to %s %s %v", req.Host, req.URL, req.Header)
			}
			action.HTTPHeaders, action.Path = nil, "/away"
			if out := r.hook(h); out.GetError() != 0 {
				t.Errorf("a redirect to another host: %v", out)
			}
			if req := <-requests; req.Header.Get("Accept") != "*/*" || req.Host != net.JoinHostPort(at.Hostname(), at.Port()) {
				t.Errorf("request to %s %v", req.Host, req.Header)
			}
			// A server that responds in plain HTTP gets the request by HTTP.
			action.Scheme = corev1.URISchemeHTTPS
			if out := r.hook(h); out.GetError() != 0 {
				t.Errorf("by HTTPS: %v", out)
			}
			<-requests
			action.Port = intstr.FromString("none")
			if out := r.hook(h); out.GetError() != journaletv1.CallError_CALL_ERROR_HOOK ||
				!strings.Contains(out.GetMessage(), "HTTP lifecycle hook for Container") {
				t.Errorf("an unknown port name: %v", out)
			}
		})
	}
}

func TestHTTPHookOfUnobservedPodFindsAddress(t *testing.T) {
	r, h := hooked(t, corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(1)}})
	r.runtime.Inject(sim.Fault{Method: "PodSandboxStatus", Err: status.Error(codes.Internal, "the sandbox was inspected")})
	if out := r.hook(h); !strings.Contains(out.GetMessage(), "the sandbox was inspected") {
		t.Error(out)
	}
}

func TestContainerGetsStopSignal(t *testing.T) {
	for signal, want := range map[corev1.Signal]runtimeapi.Signal{
		"SIGUSR1": runtimeapi.Signal_SIGNAL_SIGUSR1, "SIGRTMIN+3": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		"SIGRTMAX-14": runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14,
	} {
		r := newRig(t, nil)
		r.pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: &signal}
		started := r.done("c", startContainer(r.sandbox(), 0), false)
		st, err := runtimeapi.NewRuntimeServiceClient(r.conn).ContainerStatus(t.Context(),
			&runtimeapi.ContainerStatusRequest{ContainerId: started.GetContainerId()})
		if err != nil || st.GetStatus().GetStopSignal() != want {
			t.Errorf("%s: %s (%v)", signal, st.GetStatus().GetStopSignal(), err)
		}
	}
}
