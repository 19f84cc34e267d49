package cri_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/sim"
)

func removeImage(id string) *journaletv1.CallRequested {
	return messages.NewCall(&journaletv1.RemoveImage{ImageId: id})
}

// imageID returns the runtime's id of an image; "" for none.
func (r *rig) imageID(name string) string {
	r.t.Helper()
	resp, err := runtimeapi.NewImageServiceClient(r.conn).ImageStatus(context.Background(),
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.GetImage().GetId()
}

func TestImageInUseIsNotRemoved(t *testing.T) {
	r := newRig(t, nil)
	id := r.imageID(busybox)
	r.done("set up", setUpVolumes(), false)
	sandbox := r.done("run", runSandbox(0), false).GetSandboxId()
	container := r.done("start", startContainer(sandbox, 0), false).GetContainerId()
	refused := func(what, want string) {
		t.Helper()
		out := r.done(what, removeImage(id), false)
		if !out.GetImageInUse() || out.GetMessage() != want || r.imageID(busybox) == "" {
			t.Fatalf("%s: %v, want it in use: %s", what, out, want)
		}
	}
	refused("running", "in use by container main of pod default/web")
	r.done("stop", stopContainer(container, 0), false)
	refused("dead", "in use by container main of pod default/web (not running)")
	r.done("remove", removeContainer(container), false)
	if out := r.done("unused", removeImage(id), false); out.GetImageInUse() || r.imageID(busybox) != "" {
		t.Fatalf("%v", out)
	}
	// A removal in doubt is repeated.
	r.done("again", removeImage(id), true)
}

func TestImageOfSandboxesIsNotRemoved(t *testing.T) {
	r := newRig(t, nil)
	r.runtime.SetSandboxImage(busybox) // the runtime does not pin it
	id := r.imageID(busybox)
	out := r.done("remove", removeImage(id), false)
	if !out.GetImageInUse() || out.GetMessage() != "in use by the runtime, for sandboxes" || r.imageID(busybox) == "" {
		t.Fatalf("%v, want it in use", out)
	}
}

func TestImageOfAVolumeIsNotRemoved(t *testing.T) {
	const files = "docker.io/library/files:1"
	r := newRig(t, nil)
	r.pod.Spec.Volumes = append(r.pod.Spec.Volumes, corev1.Volume{Name: "files", VolumeSource: corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{Reference: files}}})
	r.pod.Spec.Containers[0].VolumeMounts = append(r.pod.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "files", MountPath: "/files"})
	r.done("pull", pullImage(files), false)
	r.done("set up", setUpVolumes(), false)
	sandbox := r.done("run", runSandbox(0), false).GetSandboxId()
	r.done("start", startContainer(sandbox, 0), false)
	for range 2 { // the second time from what is remembered
		if out := r.done("remove", removeImage(r.imageID(files)), false); !out.GetImageInUse() {
			t.Fatalf("%v", out)
		}
	}
	if n := r.runtime.Calls()["RemoveImage"]; n != 0 {
		t.Errorf("%d calls of RemoveImage", n)
	}
}

func TestRemovalOfAnImageThatFailsIsReported(t *testing.T) {
	r := newRig(t, nil)
	broken := status.Error(codes.Internal, "read-only file system")
	r.runtime.Inject(sim.Fault{Method: "RemoveImage", Times: 1, Err: broken})
	out := r.perform("remove", removeImage(r.imageID(busybox)), false)
	if out.GetError() != journaletv1.CallError_CALL_ERROR_RUNTIME || !out.GetRetryable() ||
		!strings.Contains(out.GetMessage(), "read-only file system") {
		t.Errorf("%v", out)
	}
	// Without a response the removal is repeated.
	gone := status.Error(codes.Unavailable, "gone")
	r.runtime.Inject(sim.Fault{Method: "RemoveImage", Times: 1, Err: gone, AfterEffect: true})
	r.done("again", removeImage(r.imageID(busybox)), false)
}
