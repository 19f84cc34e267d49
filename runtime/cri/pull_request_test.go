package cri_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/sim"
)

// pullFor is a pull that carries the rig's pod.
func pullFor(image string) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.PullImage{
		Image: image, Pod: &journaletv1.PodOfPull{Uid: uid, Digest: digest, Namespace: "default"},
	})
}

// A runtime that chooses a snapshotter, a signature policy or credentials by the pod gets the pod with the pull.
func TestPullCarriesThePod(t *testing.T) {
	r := newRig(t, nil)
	r.pod.Annotations = map[string]string{
		"io.containerd.cri.runtime-handler": "kata", "note": strings.Repeat("x", 200<<10),
	}
	r.done("p", pullFor("example.com/a/b:1"), false)
	got := r.runtime.Pulls()
	if len(got) != 1 {
		t.Fatalf("%d pulls", len(got))
	}
	if spec := got[0].GetImage(); spec.GetImage() != "example.com/a/b:1" || spec.GetRuntimeHandler() != "" ||
		!maps.Equal(spec.GetAnnotations(), r.pod.Annotations) {
		t.Errorf("image %.200v", spec)
	}
	sandbox := got[0].GetSandboxConfig()
	if m := sandbox.GetMetadata(); m.GetName() != "web" || m.GetNamespace() != "default" || m.GetUid() != uid {
		t.Errorf("sandbox of %v", m)
	}
	for key, want := range map[string]string{
		"io.containerd.cri.runtime-handler": "kata", cri.AnnotationAgent: "agent-1", cri.AnnotationIntent: "",
	} {
		if v := sandbox.GetAnnotations()[key]; v != want {
			t.Errorf("annotation %s is %q, want %q", key, v, want)
		}
	}
	if sandbox.GetLabels()["app"] != "web" || sandbox.GetLinux().GetSecurityContext() == nil {
		t.Errorf("labels %v, security context %v", sandbox.GetLabels(), sandbox.GetLinux().GetSecurityContext())
	}
	logs := sandbox.GetLogDirectory()
	if logs != filepath.Join(r.dir, "logs", "default_web_"+uid) {
		t.Errorf("log directory %s", logs)
	}
	if _, err := os.Stat(logs); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pull of a pod that may have ended has created its log directory: %v", err)
	}
}

// A pull for an operator has no pod, nor does a pull that an older version requested.
func TestPullWithoutAPodCarriesNone(t *testing.T) {
	r := newRig(t, nil)
	r.done("p", pullImage("example.com/a/b:1"), false)
	got := r.runtime.Pulls()
	if len(got) != 1 || got[0].GetSandboxConfig() != nil || got[0].GetImage().GetAnnotations() != nil {
		t.Errorf("pulls %v", got)
	}
}

// Without the pod the runtime might choose another policy, so the pull fails, and nothing is pulled.
func TestPullFailsWithoutTheManifestOfItsPod(t *testing.T) {
	r := newRig(t, nil)
	r.manifest = func(context.Context, string) (*corev1.Pod, error) { return nil, errors.New("gone") }
	r.fails("p", pullFor("example.com/a/b:1"), journaletv1.CallError_CALL_ERROR_CONFIG, "gone")
	if got := r.runtime.Pulls(); len(got) != 0 {
		t.Errorf("pulls %v", got)
	}
}

// What the runtime repeats of the pod is no more shown than in any other call.
func TestErrorOfAPullRepeatsNoAnnotation(t *testing.T) {
	r := newRig(t, nil)
	r.pod.Annotations = map[string]string{"example.com/token": "hunter2-0123456789"}
	r.runtime.Inject(sim.Fault{Method: "PullImage", Err: status.Error(codes.Unknown, "no hunter2-0123456789"), Times: 1})
	out := r.perform("p", pullFor("example.com/a/b:1"), false)
	if m := out.GetMessage(); !strings.Contains(m, "no ") || strings.Contains(m, "hunter2") {
		t.Errorf("message %q", m)
	}
}
