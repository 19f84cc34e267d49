package agent

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	imageactor "github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/image"
)

// newImages creates the driver that observes images. A simulated runtime has no file system.
func (a *agent) newImages() *image.Driver {
	o := image.Options{
		Conn: a.conn, Uses: a.criDriver.ImageUses, Log: a.log,
		Sink: func(ctx context.Context, e *journaletv1.Event) error { return a.host.Fact(ctx, messages.Image, e) },
	}
	if a.cluster != nil {
		o.Unmeasured = a.cluster.reports.unmeasured
	}
	if gc := a.cfg.ImageGC.Config(); gc != nil && !simulated(a.cfg) {
		o.HighPercent = int64(gc.GetHighPercent())
	}
	return image.New(o)
}

// listImages returns the images on the node, with what the journal knows of them.
func (a *agent) listImages(ctx context.Context) (*query.ImageList, error) {
	images, err := a.images.List(ctx)
	if err != nil {
		return nil, &query.Error{Code: query.CodeUnavailable, Message: err.Error()}
	}
	records := map[string]*journaletv1.ImageRecord{}
	err = a.host.Inspect(ctx, messages.Image, func(d actors.Decider) {
		for id, r := range d.(*imageactor.Actor).Images().GetImages() {
			records[id] = proto.CloneOf(r)
		}
	})
	if err != nil {
		a.log.Debug("images are listed without what the journal knows of them", "error", err)
	}
	out := &query.ImageList{Images: []query.ImageInfo{}}
	for _, i := range images {
		out.Images = append(out.Images, imageInfo(i, records[i.GetId()]))
	}
	fs, err := a.images.Filesystem(ctx)
	if err != nil {
		out.Problem = err.Error()
		return out, nil
	}
	out.Filesystem = &query.ImageFilesystem{
		Mountpoint: fs.Mountpoint, CapacityBytes: fs.Capacity, AvailableBytes: fs.Available, UsedPercent: fs.UsedPercent(),
	}
	return out, nil
}

// imageInfo returns one image. One that is in use is used now.
func imageInfo(i image.Image, r *journaletv1.ImageRecord) query.ImageInfo {
	out := query.ImageInfo{
		ID: i.GetId(), Names: i.GetNames(), Bytes: i.GetBytes(), Pinned: i.GetPinned(), Removing: r.GetRemoval() != "",
	}
	for _, u := range i.Users {
		out.UsedBy = append(out.UsedBy, query.ImageUser{
			ContainerID: u.ContainerID, Namespace: u.Namespace, Pod: u.Pod, Container: u.Container, Volume: u.Volume,
			Running: u.Running,
		})
	}
	if r != nil {
		out.FirstSeen, out.LastUsed = r.GetFirstSeen().AsTime(), r.GetLastUsed().AsTime()
	}
	if i.GetUsed() {
		out.LastUsed = time.Now().UTC()
	}
	return out
}
