package cri

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/own"
)

// PullRequest returns what a pull requests of the runtime, without credentials: the image, and the annotations and the
// sandbox configuration of the pod that the pull carries, as the kubelet does. A simulation that pulls by itself calls
// it, too. It calls nothing.
func (d *Driver) PullRequest(
	ctx context.Context, in *calls.Call, pull *journaletv1.PullImage,
) (*runtimeapi.PullImageRequest, error) {
	full, err := withTag(pull.GetImage())
	if err != nil {
		return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME, err.Error())
	}
	return (&call{d, in}).pullRequest(ctx, pull, full)
}

// pullRequest is PullRequest for the name of an image with its tag or digest. What the runtime gets of the pod is
// bounded as in RunPodSandbox, by the bounds of a manifest: its annotations, 256 KiB at most, are in it twice.
//
// The image has no runtime handler, as with the kubelet's gate for KEP-4216, which is off by default.
func (c *call) pullRequest(
	ctx context.Context, pull *journaletv1.PullImage, full string,
) (*runtimeapi.PullImageRequest, error) {
	spec := &runtimeapi.ImageSpec{Image: full}
	if pull.GetPod() == nil {
		return &runtimeapi.PullImageRequest{Image: spec}, nil
	}
	// A pull is no call of the pod's, so the pod is read as in one. Errors of the runtime may repeat its manifest.
	var pod *corev1.Pod
	err := c.ReadAs(pull.GetPod().GetUid(), func(call *calls.Call) (err error) {
		pod, err = call.AllocatedPod(ctx, pull.GetPod())
		return err
	})
	if err != nil {
		return nil, err
	}
	// The sandbox has its directory already. A pod that has ended since must not get it back.
	logDir := filepath.Join(c.opts.PodLogDir, own.PodLogs(pod.Namespace, pod.Name, string(pod.UID)))
	sandbox, err := c.sandboxConfig(pod, pull.GetPod().GetUserNamespace(), 0, "", logDir)
	if err != nil {
		return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	spec.Annotations = pod.Annotations
	return &runtimeapi.PullImageRequest{Image: spec, SandboxConfig: sandbox}, nil
}

// withAuth returns a request with credentials.
func withAuth(pull *runtimeapi.PullImageRequest, auth *runtimeapi.AuthConfig) *runtimeapi.PullImageRequest {
	return &runtimeapi.PullImageRequest{Image: pull.GetImage(), SandboxConfig: pull.GetSandboxConfig(), Auth: auth}
}
