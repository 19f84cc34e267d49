package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	defaultImageBytes = 4 << 20
	defaultRegistry   = "docker.io"
	// imageMountpoint is only a label in ImageFsInfo; nothing is ever stored there.
	imageMountpoint = "/var/lib/journalet-sim"
)

// ImageDef is one image of a simulated registry. The zero value is a public image of 4 MiB.
type ImageDef struct {
	// Bytes is the size; 0 means 4 MiB.
	Bytes uint64
	// PullTime is how long a pull takes by the clock; 0 means Options.PullTime.
	PullTime time.Duration
	// Username and Password, if set, are what PullImage's auth must carry.
	Username, Password string
	// User is the image's USER: a number or a name.
	User string
}

// image is one image that is present.
type image struct {
	id      string // sha256:<64 hex digits>
	tags    []string
	digests []string
	bytes   uint64
	user    string
	seq     uint64 // the order of arrival, for listing
}

// reference is a parsed image reference: repository with registry, and a tag or a digest.
type reference struct{ repo, tag, digest string }

// parseReference reads a reference as docker does: "busybox" is docker.io/library/busybox:latest.
func parseReference(s string) (reference, error) {
	var ref reference
	rest, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest {
		if !strings.HasPrefix(digest, "sha256:") || len(digest) != len("sha256:")+64 {
			return ref, fmt.Errorf("image reference %q: the digest must be sha256: and 64 hex digits", s)
		}
		ref.digest = digest
	}
	if i := strings.LastIndex(rest, ":"); i > strings.LastIndex(rest, "/") {
		rest, ref.tag = rest[:i], rest[i+1:]
		if ref.tag == "" {
			return ref, fmt.Errorf("image reference %q: the tag is empty", s)
		}
	}
	if rest == "" || strings.ToLower(rest) != rest || strings.ContainsAny(rest, " \t\n") || strings.HasPrefix(rest, "/") || strings.HasSuffix(rest, "/") {
		return ref, fmt.Errorf("image reference %q: the repository must be lower case, without blanks, and not empty", s)
	}
	first, _, nested := strings.Cut(rest, "/")
	switch {
	case !nested:
		rest = defaultRegistry + "/library/" + rest
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		rest = defaultRegistry + "/" + rest
	}
	ref.repo = rest
	if ref.tag == "" && ref.digest == "" {
		ref.tag = "latest"
	}
	return ref, nil
}

func (ref reference) String() string {
	s := ref.repo
	if ref.tag != "" {
		s += ":" + ref.tag
	}
	if ref.digest != "" {
		s += "@" + ref.digest
	}
	return s
}

func digestOf(kind, s string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// addImage makes an image present; ids and digests follow from the name alone. r.mu is held, or nobody else knows r.
func (r *Runtime) addImage(ref reference, def ImageDef) *image {
	manifest := ref.digest
	if manifest == "" {
		manifest = digestOf("manifest", ref.String())
	}
	id := digestOf("config", manifest)
	img := r.state.images[id]
	if img == nil {
		r.state.ids++
		img = &image{id: id, bytes: cmp.Or(def.Bytes, uint64(defaultImageBytes)), user: def.User, seq: r.state.ids}
		r.state.images[id] = img
	}
	if ref.tag != "" {
		img.tags = addOnce(img.tags, ref.repo+":"+ref.tag)
	}
	img.digests = addOnce(img.digests, ref.repo+"@"+manifest)
	return img
}

func addOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// findImage finds a present image by reference, id or unique prefix of its id. r.mu is held.
func (r *Runtime) findImage(s string) *image {
	if s == "" {
		return nil
	}
	if img := r.state.images[s]; img != nil {
		return img
	}
	if img := r.state.images["sha256:"+s]; img != nil {
		return img
	}
	ref, err := parseReference(s)
	if err != nil {
		return nil
	}
	for _, img := range r.state.images {
		if ref.digest != "" && slices.Contains(img.digests, ref.repo+"@"+ref.digest) {
			return img
		}
		if ref.digest == "" && slices.Contains(img.tags, ref.String()) {
			return img
		}
	}
	return nil
}

func (img *image) cri() *cri.Image {
	out := &cri.Image{
		Id: img.id, RepoTags: slices.Clone(img.tags), RepoDigests: slices.Clone(img.digests), Size: img.bytes,
	}
	name, _, _ := strings.Cut(img.user, ":")
	if uid, err := strconv.ParseInt(name, 10, 64); err == nil {
		out.Uid = &cri.Int64Value{Value: uid}
	} else {
		out.Username = name
	}
	return out
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
	return &cri.ListImagesResponse{Images: s.r.listImages(req.GetFilter())}, nil
}

func (s *imageService) StreamImages(req *cri.StreamImagesRequest, stream cri.ImageService_StreamImagesServer) error {
	for chunk := range slices.Chunk(s.r.listImages(req.GetFilter()), streamChunk) {
		if err := stream.Send(&cri.StreamImagesResponse{Images: chunk}); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runtime) listImages(f *cri.ImageFilter) []*cri.Image {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*image, 0, len(r.state.images))
	wanted := f.GetImage().GetImage()
	for _, img := range r.state.images {
		if wanted == "" || r.findImage(wanted) == img {
			all = append(all, img)
		}
	}
	slices.SortFunc(all, func(a, b *image) int { return cmp.Compare(a.seq, b.seq) })
	out := make([]*cri.Image, len(all))
	for i, img := range all {
		out[i] = img.cri()
	}
	return out
}

func (s *imageService) PullImage(ctx context.Context, req *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	r := s.r
	name := req.GetImage().GetImage()
	ref, err := parseReference(name)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	def, known := r.lookUp(name, ref)
	if !known {
		return nil, status.Errorf(codes.NotFound, "failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", ref, ref, ref)
	}
	auth := req.GetAuth()
	if def.Username != "" && (auth.GetUsername() != def.Username || auth.GetPassword() != def.Password) {
		return nil, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: pull access denied, repository does not exist or may require authorization: authorization failed", ref)
	}
	if err := r.wait(ctx, cmp.Or(def.PullTime, r.opts.PullTime), nil); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.state.images) >= maxImages {
		return nil, status.Errorf(codes.ResourceExhausted, "%d images are present; remove some", maxImages)
	}
	return &cri.PullImageResponse{ImageRef: r.addImage(ref, def).id}, nil
}

// lookUp finds a reference in the registry, as written or in full. Options are fixed, so no lock is needed.
func (r *Runtime) lookUp(name string, ref reference) (ImageDef, bool) {
	if def, ok := r.opts.Registry[name]; ok {
		return def, true
	}
	for known, def := range r.opts.Registry {
		if k, err := parseReference(known); err == nil && k == ref {
			return def, true
		}
	}
	return ImageDef{}, r.opts.AnyImage
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
	var used uint64
	for _, img := range s.r.state.images {
		used += img.bytes
	}
	usage := func(bytes uint64, count int) []*cri.FilesystemUsage {
		return []*cri.FilesystemUsage{{
			Timestamp:  s.r.stamp(),
			FsId:       &cri.FilesystemIdentifier{Mountpoint: imageMountpoint},
			UsedBytes:  &cri.UInt64Value{Value: bytes},
			InodesUsed: &cri.UInt64Value{Value: uint64(count)},
		}}
	}
	return &cri.ImageFsInfoResponse{
		ImageFilesystems:     usage(used, len(s.r.state.images)),
		ContainerFilesystems: usage(0, len(s.r.state.containers)),
	}, nil
}
