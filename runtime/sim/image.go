package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// imageBytes is the size of an image unless Options.ImageSize has another.
	imageBytes = 4 << 20
	// imageMountpoint is only a label in ImageFsInfo; nothing is ever stored there.
	imageMountpoint = "/var/lib/journalet-sim"
)

// image is one image that is present.
type image struct {
	id      string   // sha256:<64 hex digits>
	tags    []string // full references
	digests []string
	seq     uint64 // the order of arrival, for listing
	bytes   uint64
	pinned  bool
}

// fullReference completes a reference as docker does: "busybox" is docker.io/library/busybox:latest.
func fullReference(s string) (string, error) {
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return "", err
	}
	if digested, ok := named.(reference.Digested); ok {
		return named.Name() + "@" + digested.Digest().String(), nil
	}
	return reference.TagNameOnly(named).String(), nil
}

func digestOf(kind, s string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// addImage adds an image by its full reference; ids and digests follow from that alone. r.mu is held, unless r is new.
func (r *Runtime) addImage(ref string) *image {
	repo, manifest, byDigest := strings.Cut(ref, "@")
	if !byDigest {
		repo, manifest = ref[:strings.LastIndex(ref, ":")], digestOf("manifest", ref)
	}
	id := digestOf("config", manifest)
	img := r.state.images[id]
	if img == nil {
		r.state.ids++
		img = &image{id: id, seq: r.state.ids, bytes: imageBytes}
		if r.opts.ImageSize != nil {
			img.bytes = r.opts.ImageSize(ref)
		}
		r.state.images[id] = img
	}
	if !byDigest {
		img.tags = addOnce(img.tags, ref)
	}
	img.digests = addOnce(img.digests, repo+"@"+manifest)
	return img
}

func addOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// findImage finds a present image by its id or a reference. r.mu is held.
func (r *Runtime) findImage(s string) *image {
	if img := cmp.Or(r.state.images[s], r.state.images["sha256:"+s]); img != nil {
		return img
	}
	ref, err := fullReference(s)
	if err != nil {
		return nil
	}
	for _, img := range r.state.images {
		if slices.Contains(img.tags, ref) || slices.Contains(img.digests, ref) {
			return img
		}
	}
	return nil
}

func (img *image) cri() *cri.Image {
	return &cri.Image{
		Id: img.id, RepoTags: slices.Clone(img.tags), RepoDigests: slices.Clone(img.digests), Size: img.bytes,
		Pinned: img.pinned,
	}
}

func (s *imageService) ImageStatus(_ context.Context, req *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if img := s.r.findImage(req.GetImage().GetImage()); img != nil {
		return &cri.ImageStatusResponse{Image: img.cri()}, nil
	}
	return &cri.ImageStatusResponse{}, nil
}

func (s *imageService) ListImages(_ context.Context, req *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	filter := req.GetFilter().GetImage().GetImage()
	resp := &cri.ListImagesResponse{}
	byArrival := func(a, b *image) int { return cmp.Compare(a.seq, b.seq) }
	for _, img := range slices.SortedFunc(maps.Values(r.state.images), byArrival) {
		if filter == "" || r.findImage(filter) == img {
			resp.Images = append(resp.Images, img.cri())
		}
	}
	return resp, nil
}

func (s *imageService) PullImage(ctx context.Context, req *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	r := s.r
	if err := r.wait(ctx, r.opts.PullTime, nil); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ref, err := fullReference(req.GetImage().GetImage())
	var refused error
	if err == nil && r.opts.Authorize != nil {
		refused = r.opts.Authorize(ref, req.GetAuth())
	}
	switch {
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case !r.opts.AnyImage:
		return nil, status.Errorf(codes.NotFound, "failed to pull and unpack image %q: %s: not found", ref, ref)
	case refused != nil:
		return nil, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: failed to authorize: %v", ref, refused)
	case len(r.state.images) >= maxImages:
		return nil, status.Errorf(codes.ResourceExhausted, "%d images are present; remove some", maxImages)
	}
	r.pulls = append(r.pulls, &cri.PullImageRequest{
		Image: proto.CloneOf(req.GetImage()), SandboxConfig: proto.CloneOf(req.GetSandboxConfig()),
	})
	r.pulls = r.pulls[max(0, len(r.pulls)-maxPulls):]
	return &cri.PullImageResponse{ImageRef: r.addImage(ref).id}, nil
}

// Pulls returns the last requests whose pulls succeeded, at most maxPulls, the oldest first and without credentials.
func (r *Runtime) Pulls() []*cri.PullImageRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pulls)
}

func (s *imageService) RemoveImage(_ context.Context, req *cri.RemoveImageRequest) (*cri.RemoveImageResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if img := s.r.findImage(req.GetImage().GetImage()); img != nil {
		delete(s.r.state.images, img.id)
	}
	return &cri.RemoveImageResponse{}, nil
}

func (s *imageService) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	usage := func(bytes uint64, count int) []*cri.FilesystemUsage {
		return []*cri.FilesystemUsage{{
			Timestamp:  s.r.stamp(),
			FsId:       &cri.FilesystemIdentifier{Mountpoint: imageMountpoint},
			UsedBytes:  &cri.UInt64Value{Value: bytes},
			InodesUsed: &cri.UInt64Value{Value: uint64(count)},
		}}
	}
	images := len(s.r.state.images)
	return &cri.ImageFsInfoResponse{
		ImageFilesystems:     usage(s.r.imagesSize(), images),
		ContainerFilesystems: usage(0, len(s.r.state.containers)),
	}, nil
}

// ImagesSize returns the size of all images.
func (r *Runtime) ImagesSize() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.imagesSize()
}

// imagesSize returns the size of all images. r.mu is held.
func (r *Runtime) imagesSize() uint64 {
	var sum uint64
	for _, img := range r.state.images {
		sum += img.bytes
	}
	return sum
}
