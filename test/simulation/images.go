package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/image"
)

// The images' file system and its bounds, small and fast beside a node's.
const (
	imageCapacity = 1000
	podImageBytes = 10
	imageHigh     = 85
	imageLow      = 80
	imagePeriod   = time.Minute
	imageMinAge   = 30 * time.Second
	// maxPinned bounds the images of the runtime's own, so that enough of the others can be removed.
	maxPinned = 200
	// imageID begins an image's id, dockerLibrary a pod's image's full name.
	imageID, dockerLibrary = "sha256:", "docker.io/library/"
)

// otherImage is an image that no pod of the plan names.
type otherImage struct {
	bytes  int64
	pinned bool
}

// imagesUsed returns what all images take.
func (w *world) imagesUsed() int64 {
	sum := int64(len(w.images)) * podImageBytes
	for _, i := range w.others {
		sum += i.bytes
	}
	return sum
}

// arriveImages lets other images arrive until the file system is filled to so many bytes.
func (w *world) arriveImages(r *rand.Rand, fill int64) {
	for w.imagesUsed() < fill {
		i := &otherImage{bytes: 20 + r.Int64N(100)}
		pinned := int64(0)
		for _, o := range w.others {
			if o.pinned {
				pinned += o.bytes
			}
		}
		i.pinned = chance(r, 8) && pinned+i.bytes <= maxPinned
		w.arrived++
		w.others[fmt.Sprintf("other:%d", w.arrived)] = i
	}
}

// hasImage reports whether an image is on the node, by its name or its id.
func (w *world) hasImage(name string) bool {
	name = strings.TrimPrefix(name, imageID)
	return w.images[name] || w.others[name] != nil
}

// imageList returns all images, with the names that a runtime has for them.
func (w *world) imageList() []*runtimeapi.Image {
	var out []*runtimeapi.Image
	for _, name := range slices.Sorted(maps.Keys(w.images)) {
		out = append(out, &runtimeapi.Image{
			Id: imageID + name, RepoTags: []string{name, dockerLibrary + name}, Size: podImageBytes,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(w.others)) {
		i := w.others[name]
		out = append(out, &runtimeapi.Image{
			Id: imageID + name, RepoTags: []string{dockerLibrary + name}, Size: uint64(i.bytes), Pinned: i.pinned,
		})
	}
	return out
}

// users returns the containers that use an image, dead ones included.
func (w *world) users(name string) (users []*container) {
	for _, o := range w.objects {
		for _, c := range o.containers {
			if c.image == name {
				users = append(users, c)
			}
		}
	}
	return users
}

// removeImage is RemoveImage, in a call that began at this uptime.
func (w *world) removeImage(id string, began time.Duration) {
	name := strings.TrimPrefix(id, imageID)
	w.judge.imageRemoved(name, began)
	delete(w.images, name)
	delete(w.others, name)
}

// imageReads serves the requests about images that change nothing.
func (w *world) imageReads(request, reply any) (took time.Duration, do func(gone bool) error) {
	switch req := request.(type) {
	case *runtimeapi.ImageStatusRequest:
		return tookRead, func(bool) error {
			name := strings.TrimPrefix(req.GetImage().GetImage(), imageID)
			if w.hasImage(name) {
				o := w.others[name]
				reply.(*runtimeapi.ImageStatusResponse).Image = &runtimeapi.Image{Id: imageID + name, Pinned: o != nil && o.pinned}
			}
			return nil
		}
	case *runtimeapi.ListImagesRequest:
		return tookList(true), func(bool) error {
			reply.(*runtimeapi.ListImagesResponse).Images = w.imageList()
			return nil
		}
	case *runtimeapi.ImageFsInfoRequest:
		return tookRead, func(bool) error {
			reply.(*runtimeapi.ImageFsInfoResponse).ImageFilesystems = []*runtimeapi.FilesystemUsage{
				{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}},
			}
			return nil
		}
	}
	return 0, nil
}

// imageGC returns the configuration of runs whose plan has images.
func (s *sim) imageGC() *journaletv1.ImageGarbageCollection {
	if !s.config.images {
		return nil
	}
	return &journaletv1.ImageGarbageCollection{
		HighPercent: imageHigh, LowPercent: imageLow, MinAge: durationpb.New(imageMinAge),
	}
}

// imageWatch runs runtime/image on a coroutine.
type imageWatch struct {
	*image.Driver
	p *proc
	// idle is set while it waits for its period, or for a hint: only then may it be interrupted.
	idle, hinted bool
}

func newImageWatch(r *run) *imageWatch {
	return &imageWatch{Driver: image.New(image.Options{
		Conn: criConn{r}, Uses: r.performer.runtime.ImageUses, HighPercent: imageHigh, Clock: driverClock{r.clock, r},
		Sink: func(_ context.Context, e *journaletv1.Event) error {
			r.fact(r.clock.current, messages.Image, e)
			return nil
		},
		Statfs: func(string) (int64, int64, error) {
			return imageCapacity, max(0, imageCapacity-r.world.imagesUsed()), nil
		},
	})}
}

func (m *imageWatch) loop(p *proc) {
	m.p = p
	for next := p.clock.uptime; ; {
		full := p.clock.uptime >= next
		if m.Check(context.Background(), full) == nil && full {
			next = p.clock.uptime + imagePeriod
		}
		p.sleep(image.Pause)
		for m.idle = true; !m.hinted && p.clock.uptime < next; {
			p.sleep(next - p.clock.uptime)
		}
		m.idle, m.hinted = false, false
	}
}

// Stored implements drivers.Storer.
func (m *imageWatch) Stored(rec *journaletv1.Record) {
	m.Driver.Stored(rec)
	if m.hinted = m.Hinted() || m.hinted; m.hinted && m.idle {
		m.p.interrupt()
	}
}

// images plans that images arrive, in some plans, until the file system is nearly full or more.
func (p *Plan) images(r *rand.Rand) {
	if p.config.images = chance(r, 3); !p.config.images {
		return
	}
	for at := between(r, 0, time.Minute); at < p.end; at += between(r, 10*time.Second, 2*time.Minute) {
		p.Ops = append(p.Ops, Op{At: at, Kind: "images arrive", pick: r.Uint64()})
		if chance(r, 3) {
			p.Ops = append(p.Ops, Op{At: at, Kind: "an operator wants images", pick: r.Uint64()})
		}
	}
}

func (s *sim) imagesArrive(o Op) {
	r := stream(s.seed, "images", o.String())
	s.world.arriveImages(r, 500+r.Int64N(imageCapacity-500))
}

// operatorWantsImages requests a pull and the removal of any image, as an operator does.
func (s *sim) operatorWantsImages(o Op) {
	if s.agent == nil {
		return
	}
	all := s.world.imageList()
	pull := &journaletv1.OperatorPullRequested{
		RequestId: fmt.Sprintf("pull-%d", o.N), Image: fmt.Sprintf("app:%d", o.pick%4), Client: "operator",
	}
	s.agent.outcome(messages.Image, messages.NewEvent(pull))
	if len(all) == 0 {
		return
	}
	victim := all[o.pick%uint64(len(all))]
	s.agent.outcome(messages.Image, messages.NewEvent(&journaletv1.ImageRemovalRequested{
		RequestId: fmt.Sprintf("remove-%d", o.N), ImageId: victim.GetId(), Name: victim.GetRepoTags()[0], Client: "operator",
	}))
}
