package conformance

import (
	"slices"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// absentImage is in no registry: the top-level domain "invalid" never resolves (RFC 6761).
const absentImage = "registry.invalid/conformance/absent:1"

func (s *suite) image(t *testing.T) {
	t.Run("status and list of one that is present", func(t *testing.T) {
		resp, err := s.images.ImageStatus(call(t), &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: s.Image}})
		if err != nil || resp.GetImage() == nil {
			t.Fatalf("ImageStatus of %s: %v, %v", s.Image, resp, err)
		}
		img := resp.GetImage()
		if !slices.Contains(img.GetRepoTags(), s.Image) || img.GetSize() == 0 {
			t.Errorf("ImageStatus returns %v", img)
		}
		byID, err := s.images.ImageStatus(call(t), &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: img.GetId()}})
		if err != nil || byID.GetImage().GetId() != img.GetId() {
			t.Errorf("ImageStatus by id: %v, %v", byID, err)
		}
		list := must(t, s.images.ListImages, &cri.ListImagesRequest{})
		listed := slices.ContainsFunc(list.GetImages(), func(i *cri.Image) bool { return i.GetId() == img.GetId() })
		equal(t, "listed", listed, true)
	})
	t.Run("status of one that is absent is empty", func(t *testing.T) {
		resp, err := s.images.ImageStatus(call(t), &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: absentImage}})
		if err != nil || resp.GetImage() != nil {
			t.Errorf("ImageStatus: %v, %v", resp, err)
		}
	})
	t.Run("pull of an unknown one fails", func(t *testing.T) {
		resp, err := s.images.PullImage(call(t), &cri.PullImageRequest{Image: &cri.ImageSpec{Image: absentImage}})
		if err == nil {
			t.Errorf("PullImage: %v", resp)
		}
	})
	t.Run("removal of one that is absent has nothing to do", func(t *testing.T) {
		must(t, s.images.RemoveImage, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: absentImage}})
	})
	t.Run("filesystem has a name and a usage", func(t *testing.T) {
		resp, err := s.images.ImageFsInfo(call(t), &cri.ImageFsInfoRequest{})
		if err != nil || len(resp.GetImageFilesystems()) == 0 {
			t.Fatalf("ImageFsInfo: %v, %v", resp, err)
		}
		fs := resp.GetImageFilesystems()[0]
		if fs.GetFsId().GetMountpoint() == "" || fs.GetUsedBytes() == nil || fs.GetTimestamp() == 0 {
			t.Errorf("ImageFsInfo returns %v", fs)
		}
	})
}
