package cri

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/image/credentials"
)

// A CRI runtime marks the two kinds of failed pulls that have their own reason with these texts (cri-api: pkg/errors).
const (
	markRegistryUnavailable = "RegistryUnavailable"
	markSignatureValidation = "SignatureValidationFailed"
)

// imageInfo is the runtime's information about a container's image.
type imageInfo struct {
	ref      string // the runtime's id
	uid      *int64
	username string
	bytes    int64
}

// withTag checks an image's name and adds the tag "latest" if it has neither tag nor digest.
func withTag(image string) (string, error) {
	if strings.TrimSpace(image) != image || image == "" {
		return "", fmt.Errorf("couldn't parse image name %q: it is empty or has spaces around it", image)
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("couldn't parse image name %q: %w", image, err)
	}
	if reference.IsNameOnly(named) {
		return image + ":latest", nil
	}
	return image, nil
}

// imageOf returns the image of this name for a pod. It must be on the node: pulling is the work of another intent. One
// that the pod may not have counts as missing until it was pulled for this pod, as if it were not there.
func (c *call) imageOf(ctx context.Context, pod *corev1.Pod, requested string, pulled bool) (imageInfo, error) {
	image, err := withTag(requested)
	if err != nil {
		return imageInfo{}, calls.Fail(journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME, err.Error())
	}
	verifies := c.opts.Pulls.Credentials
	info, found, err := c.imageStatus(ctx, image)
	switch {
	case err != nil && ctx.Err() != nil:
		return imageInfo{}, ctx.Err()
	case err != nil:
		return imageInfo{}, calls.Retryable(journaletv1.CallError_CALL_ERROR_IMAGE_INSPECT,
			fmt.Sprintf("Failed to inspect image %q: %s", requested, messageOf(err)))
	case !found && pulled:
		// Reporting it as not present would request another pull, without end.
		return imageInfo{}, calls.Retryable(journaletv1.CallError_CALL_ERROR_CREATE,
			fmt.Sprintf("image %q was pulled, but the runtime does not have it; check its image garbage collection",
				requested))
	case !found, !pulled && verifies != nil && verifies.MustPull(ctx, pod, requested, info.ref):
		return imageInfo{}, calls.Retryable(journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT,
			fmt.Sprintf("image %q is not present on the node", requested))
	}
	return info, nil
}

func (c *call) imageStatus(ctx context.Context, image string) (imageInfo, bool, error) {
	resp, err := retry(ctx, c, "ImageStatus", c.opts.Timeouts.Call, c.images.ImageStatus,
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	img := resp.GetImage()
	if err != nil || img == nil {
		return imageInfo{}, false, err
	}
	if img.GetId() == "" {
		return imageInfo{}, false, fmt.Errorf("the runtime returned the image without an id")
	}
	info := imageInfo{ref: img.GetId(), username: img.GetUsername(), bytes: int64(min(img.GetSize(), 1<<62))}
	if img.GetUid() != nil {
		uid := img.GetUid().GetValue()
		info.uid = &uid
	}
	return info, true, nil
}

// pullImage pulls an image. It is idempotent, so a pull in doubt is repeated. It tries one credential after the other.
func (c *call) pullImage(ctx context.Context, req *journaletv1.PullImage) (*calls.Outcome, error) {
	image := req.GetImage()
	full, err := withTag(image)
	if err != nil {
		return nil, calls.Fail(journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME, err.Error())
	}
	// After a pull in doubt the image may be there because of it: only another pull finds out what it needed.
	if req.GetIfNotPresent() && !c.InDoubt {
		if info, ok := c.allowed(ctx, req, full); ok {
			return &calls.Outcome{ImageRef: info.ref, ImageBytes: info.bytes, ImagePresent: true}, nil
		}
	}
	pull, err := c.pullRequest(ctx, req, full)
	if err != nil {
		return nil, err
	}
	if err := c.pulls.Wait(ctx); err != nil {
		return nil, err
	}
	var found credentials.Found
	if c.opts.Pulls.Credentials != nil {
		found = c.opts.Pulls.Credentials.Find(ctx, req)
		c.Hide(found.Values)
	}
	ref, used, err := c.tryPulls(ctx, image, pull, found)
	if err != nil {
		return nil, err
	}
	info, present, err := c.imageStatus(ctx, full)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || !present {
		// The pull has succeeded; the journal only lacks the image's size.
		c.Log.Warn("a pulled image cannot be inspected", "image", image, "found", present, "error", err)
	}
	return &calls.Outcome{
		ImageRef: cmp.Or(info.ref, ref), ImageBytes: info.bytes, PullCredentials: used.Used(credentials.Repository(image)),
	}, nil
}

// allowed returns an image that is on the node and that the pods of a pull may have without it. The runtime may fail to
// say so: then the pull does.
func (c *call) allowed(ctx context.Context, req *journaletv1.PullImage, full string) (imageInfo, bool) {
	info, found, err := c.imageStatus(ctx, full)
	if err != nil || !found {
		return imageInfo{}, false
	}
	return info, c.opts.Pulls.Credentials == nil || !c.opts.Pulls.Credentials.StillPulls(ctx, req, c.Intent, info.ref)
}

// tryPulls pulls with each credential until a pull succeeds, and returns that credential; nil if there are no
// credentials. The error is the last pull's; it says how many credentials there were and what could not be read,
// without contents.
func (c *call) tryPulls(
	ctx context.Context, image string, pull *runtimeapi.PullImageRequest, found credentials.Found,
) (ref string, used *credentials.Candidate, err error) {
	if len(found.Candidates) == 0 {
		ref, err = c.retryPull(ctx, image, pull)
	}
	for i := range found.Candidates {
		used = &found.Candidates[i]
		// As the kubelet's keyring, which fills in no other field: the runtime is to use it for this image's registry.
		auth := &runtimeapi.AuthConfig{Username: used.Username, Password: used.Password}
		ref, err = c.retryPull(ctx, image, withAuth(pull, auth))
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err == nil || ctx.Err() != nil || !calls.IsFailure(err) {
		return ref, used, err
	}
	f := failureOf(err)
	var notes []string
	if n := len(found.Candidates); n > 0 {
		notes = append(notes, fmt.Sprintf("credentials tried: %d", n))
	}
	if notes = append(notes, found.Problems...); len(notes) > 0 {
		f = calls.Retryable(f.Code,
			plain.Cut(c.Redact(f.Message), calls.MaxMessageBytes/2)+" ("+strings.Join(notes, "; ")+")")
	}
	return "", nil, f
}

func (c *call) retryPull(ctx context.Context, image string, pull *runtimeapi.PullImageRequest) (string, error) {
	b := c.backOff()
	for attempt := 1; ; attempt++ {
		ref, err := c.pullOnce(ctx, image, pull)
		if err == nil {
			return ref, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		// Only Unavailable is in doubt: a pull has no deadline of ours, so every other error is the runtime's result.
		f := pullError(err)
		if calls.IsFailure(err) || status.Code(err) != codes.Unavailable ||
			f.Code != journaletv1.CallError_CALL_ERROR_RUNTIME {
			return "", f
		}
		c.Log.Log(ctx, b.level, "no response to a pull; retrying once the runtime is back",
			"image", image, "error", c.Redact(messageOf(err)))
		if err := b.wait(ctx); err != nil {
			return "", err
		}
		_, err = retry(ctx, c, "Version", c.opts.Timeouts.Inspect, c.rt.Version, &runtimeapi.VersionRequest{})
		if err != nil && ctx.Err() != nil {
			return "", ctx.Err()
		}
		if attempt == maxAttempts {
			return "", f
		}
	}
}

// pullError returns the failure of a pull, with the code of its kind.
func pullError(err error) *calls.Failure {
	if calls.IsFailure(err) {
		return failureOf(err)
	}
	m := messageOf(err)
	code := journaletv1.CallError_CALL_ERROR_RUNTIME
	switch {
	case strings.Contains(m, markRegistryUnavailable):
		code = journaletv1.CallError_CALL_ERROR_REGISTRY_UNAVAILABLE
	case strings.Contains(m, markSignatureValidation):
		code = journaletv1.CallError_CALL_ERROR_SIGNATURE_VALIDATION
	}
	return calls.Retryable(code, m)
}

// pullOnce makes one pull without a deadline and reports its progress. It cancels the pull if the image file system did
// not grow for Timeouts.PullStall.
func (c *call) pullOnce(ctx context.Context, image string, pull *runtimeapi.PullImageRequest) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type response struct {
		ref string
		err error
	}
	done := make(chan response, 1)
	go func() {
		resp, err := c.images.PullImage(ctx, pull)
		if err == nil && resp.GetImageRef() == "" {
			err = calls.Retryable(journaletv1.CallError_CALL_ERROR_INVALID_RESPONSE,
				"the runtime pulled the image and returned no reference to it")
		}
		done <- response{resp.GetImageRef(), err}
	}()
	began := c.clock.Now()
	grew := began
	base, known := c.imageFsUsed(ctx)
	seen := base
	for {
		tick := make(chan struct{})
		stop := c.clock.AfterFunc(c.opts.Timeouts.PullReport, func() { close(tick) })
		select {
		case r := <-done:
			stop()
			return r.ref, r.err
		case <-tick:
		}
		now := c.clock.Now()
		if used, ok := c.imageFsUsed(ctx); ok {
			if !known {
				base, seen, known = used, used, true
			}
			if used > seen {
				seen, grew = used, now
			}
		}
		c.opts.Pulls.Progress(&journaletv1.PullProgressed{
			Image: image, Elapsed: durationpb.New(now.Sub(began)), Bytes: seen - base,
		})
		if now.Sub(grew) >= c.opts.Timeouts.PullStall {
			cancel()
			<-done
			return "", calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME,
				fmt.Sprintf("pull of image %q canceled: no progress for %s", image, c.opts.Timeouts.PullStall.Round(time.Second)))
		}
	}
}

// imageFsUsed returns the bytes used on the image file systems; false if the runtime does not report them.
func (c *call) imageFsUsed(ctx context.Context) (int64, bool) {
	resp, err := once(ctx, c, c.opts.Timeouts.Inspect, c.images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return 0, false
	}
	var sum int64
	for _, fs := range resp.GetImageFilesystems() {
		sum += int64(min(fs.GetUsedBytes().GetValue(), 1<<50))
	}
	return sum, true
}
