package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// images records what was observed of the images on the node: "images [complete]", an image a line as "<id> [<name>
// ...] [bytes=<n>] [used] [pinned]", a removed image as "gone <id>".
func (s *Scenario) images(d *datadriven.TestData) (string, error) {
	o := &journaletv1.ImagesObserved{Complete: d.HasArg("complete")}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		if words[0] == "gone" {
			o.Removed = append(o.Removed, words[1])
			continue
		}
		image := &journaletv1.ImageObservation{Id: words[0], Bytes: 10}
		for _, w := range words[1:] {
			n, isSize := strings.CutPrefix(w, "bytes=")
			switch {
			case isSize:
				bytes, err := strconv.ParseInt(n, 10, 64)
				if err != nil {
					return "", err
				}
				image.Bytes = bytes
			case w == "used":
				image.Used = true
			case w == "pinned":
				image.Pinned = true
			default:
				image.Names = append(image.Names, w)
			}
		}
		o.Present = append(o.Present, image)
	}
	return "", s.put(messages.Image, messages.NewEvent(o))
}

// full records that the images' file system is full: "full [capacity=<n>] available=<n>".
func (s *Scenario) full(d *datadriven.TestData) (string, error) {
	return "", s.put(messages.Image, messages.NewEvent(&journaletv1.ImageFilesystemFull{
		CapacityBytes: int64(number(d, "capacity", 100)), AvailableBytes: int64(number(d, "available", 0)),
	}))
}

// operatorPull records an operator's request: "pull <image> request=<id>".
func (s *Scenario) operatorPull(d *datadriven.TestData) (string, error) {
	return "", s.put(messages.Image, messages.NewEvent(&journaletv1.OperatorPullRequested{
		RequestId: arg(d, "request", ""), Image: d.CmdArgs[0].Key, Client: "scenario",
	}))
}

// operatorRemoval records an operator's request: "remove-image <id> request=<id>".
func (s *Scenario) operatorRemoval(d *datadriven.TestData) (string, error) {
	return "", s.put(messages.Image, messages.NewEvent(&journaletv1.ImageRemovalRequested{
		RequestId: arg(d, "request", ""), ImageId: d.CmdArgs[0].Key, Name: d.CmdArgs[0].Key, Client: "scenario",
	}))
}

// keepImage records that the runtime's containers use an image that was to be removed: "keep-image <id>".
func (s *Scenario) keepImage(d *datadriven.TestData) (string, error) {
	id := d.CmdArgs[0].Key
	all := s.g.dispatched()
	i := slices.IndexFunc(all, func(c *journaletv1.Call) bool {
		return c.GetRequest().GetRemoveImage().GetImageId() == id
	})
	if i < 0 {
		return "", fmt.Errorf("no removal of image %s is under way", id)
	}
	return "", s.moment(func() error {
		return s.g.finish(&journaletv1.CallFinished{
			IntentId: all[i].GetIntentId(), Requester: all[i].GetRequester(), ImageInUse: true, Message: "in use by a container",
		})
	})
}

// imageGC returns the bounds of images that a command names: gc=(high,low) min-age= max-age=; nil for none.
func imageGC(d *datadriven.TestData) *journaletv1.ImageGarbageCollection {
	v := values(d, "gc")
	if len(v) == 0 {
		return nil
	}
	high, _ := strconv.ParseUint(v[0], 10, 32)
	low, _ := strconv.ParseUint(v[1], 10, 32)
	gc := &journaletv1.ImageGarbageCollection{
		HighPercent: uint32(high), LowPercent: uint32(low), MinAge: durationpb.New(duration(d, "min-age", 2*time.Minute)),
	}
	if age := duration(d, "max-age", 0); age > 0 {
		gc.MaxAge = durationpb.New(age)
	}
	return gc
}

// image describes decisions on images.
func (n *names) image(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ImagesCollected:
		c := k.ImagesCollected
		return strings.TrimSpace(fmt.Sprintf("collect %d of %d: %s", c.GetFreedBytes(), c.GetWantedBytes(),
			strings.Join(c.GetImages(), " ")))
	case *journaletv1.Event_OperatorPullDecided:
		p := k.OperatorPullDecided
		if p.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
			return "answer " + p.GetRequestId() + ": " + p.GetImage() + " failed: " + p.GetMessage()
		}
		return "answer " + p.GetRequestId() + ": " + p.GetImage() + " pulled"
	case *journaletv1.Event_ImageRemovalDecided:
		r := k.ImageRemovalDecided
		if r.GetMessage() != "" {
			return "answer " + r.GetRequestId() + ": " + r.GetImageId() + " stays: " + r.GetMessage()
		}
		return "answer " + r.GetRequestId() + ": " + r.GetImageId() + " removed"
	}
	return n.pressed(e)
}
