package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri"
)

// Bounds of what a runtime returns. A record with all of them has at most 8 MiB; usual nodes have 100 images with 2
// names of 80 bytes.
const (
	// maxImages bounds the images; beyond, those with the first ids count.
	maxImages = 1000
	// maxNames and maxNameBytes bound the names of one image: a registry's name has 255 bytes, a tag 128 and a digest 71.
	maxNames     = 16
	maxNameBytes = 512
	maxBytes     = 1 << 50
)

// Image is one image, and who uses it.
type Image struct {
	*journaletv1.ImageObservation
	Users []cri.ImageUse
}

// Filesystem is the file system of the images.
type Filesystem struct {
	Mountpoint          string
	Capacity, Available int64
}

// UsedPercent returns the use in percent as the kubelet computes it.
func (f Filesystem) UsedPercent() int64 {
	return 100 - min(f.Available, f.Capacity)*100/max(f.Capacity, 1)
}

// List returns the images on the node, by id, with their users.
func (d *Driver) List(ctx context.Context) ([]Image, error) {
	ctx, cancel := clock.WithTimeout(ctx, d.opts.Clock, d.opts.Timeout)
	defer cancel()
	resp, err := d.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	// Users after images: an image that is used between both calls counts as used.
	uses, err := d.opts.Uses(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the containers that use images: %w", err)
	}
	byImage := map[string][]cri.ImageUse{}
	for _, u := range uses {
		byImage[u.Image] = append(byImage[u.Image], u)
	}
	all := map[string]Image{}
	for _, img := range resp.GetImages() {
		if id := img.GetId(); id != "" && len(id) <= maxNameBytes {
			all[id] = observed(img, byImage)
		}
	}
	ids := slices.Sorted(maps.Keys(all))
	if len(ids) > maxImages {
		d.opts.Log.Warn("there are too many images; the others are not managed", "images", len(ids), "managed", maxImages)
		ids = ids[:maxImages]
	}
	out := make([]Image, 0, len(ids))
	for _, id := range ids {
		out = append(out, all[id])
	}
	return out, nil
}

// observed returns one image as the runtime shows it. A name that is too long is left out: a cut one is another name.
func observed(img *runtimeapi.Image, uses map[string][]cri.ImageUse) Image {
	o := &journaletv1.ImageObservation{
		Id: img.GetId(), Bytes: int64(min(img.GetSize(), maxBytes)), Pinned: img.GetPinned(),
	}
	out := Image{ImageObservation: o}
	names := slices.Concat(img.GetRepoTags(), img.GetRepoDigests())
	for _, name := range slices.Concat([]string{img.GetId()}, names) {
		for _, u := range uses[name] {
			if u.Sandboxes {
				o.Pinned = true // the runtime would have pinned it, if it could
				continue
			}
			out.Users = append(out.Users, u)
		}
	}
	slices.SortFunc(out.Users, compareUses)
	out.Users = slices.CompactFunc(out.Users, func(a, b cri.ImageUse) bool { return compareUses(a, b) == 0 })
	o.Used = len(out.Users) > 0
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if len(name) <= maxNameBytes && len(o.Names) < maxNames {
			o.Names = append(o.Names, name)
		}
	}
	return out
}

// compareUses orders the uses of one image by container.
func compareUses(a, b cri.ImageUse) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
		cmp.Compare(a.Container, b.Container), cmp.Compare(a.ContainerID, b.ContainerID))
}

// diff returns what has changed from last to now; nil for nothing.
func diff(last, now map[string]*journaletv1.ImageObservation, complete bool) *journaletv1.ImagesObserved {
	out := &journaletv1.ImagesObserved{Complete: complete}
	changed := false
	for _, id := range slices.Sorted(maps.Keys(now)) {
		differs := !proto.Equal(last[id], now[id])
		changed = changed || differs
		if differs || complete {
			out.Present = append(out.Present, now[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		if now[id] == nil {
			out.Removed = append(out.Removed, id)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return out
}

// apply adds an observation to what the journal has.
func apply(last map[string]*journaletv1.ImageObservation, o *journaletv1.ImagesObserved) {
	if o.GetComplete() {
		clear(last)
	}
	for _, image := range o.GetPresent() {
		last[image.GetId()] = image
	}
	for _, id := range o.GetRemoved() {
		delete(last, id)
	}
}

// Filesystem measures the file system of the images. One that hangs is not measured again before it returns.
func (d *Driver) Filesystem(ctx context.Context) (Filesystem, error) {
	ctx, cancel := clock.WithTimeout(ctx, d.opts.Clock, d.opts.Timeout)
	defer cancel()
	resp, err := d.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return Filesystem{}, fmt.Errorf("ask the runtime where images are: %w", err)
	}
	var fs Filesystem
	if all := resp.GetImageFilesystems(); len(all) > 0 {
		fs.Mountpoint = all[0].GetFsId().GetMountpoint()
	}
	if fs.Mountpoint == "" {
		return fs, errors.New("the runtime does not report where images are")
	}
	d.mu.Lock()
	hanging := d.hanging
	d.hanging = true
	d.mu.Unlock()
	if hanging {
		return fs, fmt.Errorf("file system of %.200s: the last measurement still hangs", fs.Mountpoint)
	}
	type sizes struct {
		capacity, available int64
		err                 error
	}
	done := make(chan sizes, 1)
	go func() {
		capacity, available, err := d.opts.Statfs(fs.Mountpoint)
		d.mu.Lock()
		d.hanging = false
		d.mu.Unlock()
		done <- sizes{capacity, available, err}
	}()
	select {
	case s := <-done:
		fs.Capacity, fs.Available, err = s.capacity, s.available, s.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil && fs.Capacity <= 0 {
		err = ErrNoCapacity
	}
	if err != nil {
		return fs, fmt.Errorf("file system of %.200s: %w", fs.Mountpoint, err)
	}
	return fs, nil
}

// ErrNoCapacity means that the file system of images reports no size.
var ErrNoCapacity = errors.New("invalid capacity 0 on image filesystem")

// statfs returns the size of a file system and what is available to users.
func statfs(path string) (capacity, available int64, err error) {
	var st unix.Statfs_t
	for {
		if err = unix.Statfs(path, &st); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	size := uint64(max(st.Bsize, 1))
	return int64(min(st.Blocks, maxBytes/size) * size), int64(min(st.Bavail, maxBytes/size) * size), err
}
