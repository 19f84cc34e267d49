package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	imageactor "github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/image"
)

// What is judged of images. The judge believes the runtime.
const (
	imagesKept  = "no image is removed that a container uses, or that is pinned"
	imagesFreed = "garbage collection of images keeps their file system from being full"
)

// collectWithin bounds how long a garbage collection takes: until the images are old enough, then some checks.
const collectWithin = imageMinAge + 4*imagePeriod

// seenWithin is how long an image may stay unseen that no call of this run of the agent has brought: until the next
// check, which may wait for an inspection before it.
const seenWithin = imagePeriod + 2*image.Pause

// imageRemoved: no image is removed that a container used when the call began, or that the runtime needs.
func (j *judge) imageRemoved(name string, began time.Duration) {
	if i := j.sim.world.others[name]; i != nil && i.pinned {
		j.broken(imagesKept, "", "image %s is removed, and the runtime needs it", name)
	}
	for _, c := range j.sim.world.users(name) {
		if c.createdAt < began {
			j.broken(imagesKept, c.uid, "image %s is removed, and %s (%s) uses it", name, c.name, c.id)
		}
	}
}

// judgeImagesKnown reports how what the agent knows of images differs from the world, and requests without an outcome.
func (s *sim) judgeImagesKnown(say func(uid, format string, args ...any)) {
	if !s.config.images {
		return
	}
	d := s.agent.cells.Decider(messages.Image).(*imageactor.Actor).Images()
	known, there := d.GetImages(), map[string]bool{}
	for _, i := range s.world.imageList() {
		there[i.GetId()] = true
		o := known[i.GetId()].GetObserved()
		name := strings.TrimPrefix(i.GetId(), imageID)
		if at, late := s.world.unawaited[name]; late && o == nil && s.clock.uptime < at+seenWithin {
			continue // no hint leads to it
		}
		used := len(s.world.users(name)) > 0
		if o == nil || o.GetUsed() != used || o.GetPinned() != i.GetPinned() {
			say("", "image %s is used: %t, and the agent knows %v", i.GetId(), used, o)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if !there[id] {
			say("", "image %s is gone, and the agent knows of it", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.GetOperatorPulls())) {
		say("", "request %s has no outcome", id)
	}
	for _, id := range slices.Sorted(maps.Keys(d.GetOperatorRemovals())) {
		say("", "request %s has no outcome", id)
	}
}

// judgeImages fills the file system of images: garbage collection frees it again. The images that arrive are far more
// than the images of pods and of the runtime, so enough can be removed.
func (s *sim) judgeImages() {
	if !s.config.images {
		return
	}
	s.world.arriveImages(stream(s.seed, "images at the end"), imageCapacity-20)
	s.play(s.clock.uptime+collectWithin, 0)
	if used := s.world.imagesUsed() * 100 / imageCapacity; used >= imageHigh {
		s.judge.broken(imagesFreed, "", "images take %d %% of their file system for %s: %v", used, collectWithin,
			s.world.imageList())
	}
	s.judgeImagesKnown(func(uid, format string, args ...any) { s.judge.broken(imagesFreed, uid, format, args...) })
}
