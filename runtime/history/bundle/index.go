package bundle

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

var discardUnknown = proto.UnmarshalOptions{DiscardUnknown: true}

// decodeOne decodes the only item of a frame.
func decodeOne(b []byte, content journaletv1.BundleContent, into proto.Message, check func(item []byte) error) error {
	item, rest := nextItem(b, content)
	if item == nil || len(rest) > 0 {
		return problemf("%s: %s", nameOf(content), copyAgain)
	}
	if check != nil {
		if err := check(item); err != nil {
			return err
		}
	}
	if err := discardUnknown.Unmarshal(item, into); err != nil {
		return problemf("%s cannot be decoded: %v", nameOf(content), err)
	}
	return nil
}

func nameOf(content journaletv1.BundleContent) string {
	switch content {
	case journaletv1.BundleContent_BUNDLE_CONTENT_HEADER:
		return "the header"
	case journaletv1.BundleContent_BUNDLE_CONTENT_INDEX:
		return "the index"
	case journaletv1.BundleContent_BUNDLE_CONTENT_SNAPSHOTS:
		return "a frame of snapshots"
	case journaletv1.BundleContent_BUNDLE_CONTENT_RECORDS:
		return "a frame of records"
	case journaletv1.BundleContent_BUNDLE_CONTENT_MANIFESTS:
		return "a frame of manifests"
	}
	return "a frame"
}

// boundIndex returns an error for an index that decodes to far more memory than the file's size justifies: an empty
// message takes two bytes there and a hundred times as much in memory. frames is how many frames fit the file.
func boundIndex(frames uint64) func(item []byte) error {
	return func(item []byte) error {
		counts := map[protowire.Number]uint64{}
		for b := item; len(b) > 0; {
			number, kind, n := protowire.ConsumeTag(b)
			if n < 0 {
				return problemf("the index cannot be decoded: %v", protowire.ParseError(n))
			}
			m := protowire.ConsumeFieldValue(number, kind, b[n:])
			if m < 0 {
				return problemf("the index cannot be decoded: %v", protowire.ParseError(m))
			}
			if counts[number]++; kind == protowire.BytesType && counts[number] > frames+maxNames {
				return problemf("the index lists more than %d items in field %d, and the file has room for %d frames: "+
					"it is damaged or hostile", counts[number]-1, number, frames)
			}
			b = b[n+m:]
		}
		if n := counts[1]; n > frames {
			return problemf("the index lists %d frames, and the file has room for %d: it is damaged or hostile", n, frames)
		}
		return nil
	}
}

// maxNames bounds the lists of names in an index: of actors, and of manifests that are missing.
const maxNames = 1 << 18

// checkIndex holds the frames of an index to the bounds, to each other and to the file, so that later reads need no
// more than the check of each frame's content.
func checkIndex(x *journaletv1.BundleIndex, end uint64) error {
	c := &indexCheck{x: x, at: uint64(openingBytes), first: x.GetFirst(), perSet: map[uint64]uint64{}}
	for i, f := range x.GetFrames() {
		if err := c.frame(i, f); err != nil {
			return err
		}
	}
	if c.at != end {
		return problemf("byte %d: the frames end here, and the index begins at byte %d: %s", c.at, end, copyAgain)
	}
	if len(x.GetFrames()) == 0 || c.records != x.GetRecords() || c.manifests != x.GetManifests() ||
		c.last > x.GetLast() && c.records > 0 || c.records == 0 && x.GetFirst() != x.GetLast()+1 {
		return problemf("the index counts records %d to %d (%d) and %d manifests, and its frames have others: %s",
			x.GetFirst(), x.GetLast(), x.GetRecords(), x.GetManifests(), copyAgain)
	}
	barrier := uint64(0)
	for _, s := range x.GetSets() {
		if s.GetBarrier() <= barrier || c.perSet[s.GetBarrier()] != uint64(s.GetActors()) {
			return problemf("the index has a set of %d snapshots at %d, and its frames have %d: %s", s.GetActors(),
				s.GetBarrier(), c.perSet[s.GetBarrier()], copyAgain)
		}
		barrier = s.GetBarrier()
		delete(c.perSet, barrier)
	}
	if len(c.perSet) > 0 {
		return problemf("frames hold snapshots that the index has no set for: %s", copyAgain)
	}
	return checkActors(x)
}

func checkActors(x *journaletv1.BundleIndex) error {
	for i, name := range x.GetActors() {
		if i > 0 && name <= x.GetActors()[i-1] {
			return problemf("the index has actor %q out of order: %s", name, copyAgain)
		}
		if _, err := messages.ParseRef(name); err != nil || len(name) > maxActorBytes {
			return problemf("the index has an actor of %d bytes that is none: %s", len(name), copyAgain)
		}
	}
	return nil
}

// maxActorBytes bounds kind/id.
const maxActorBytes = messages.MaxIDBytes + 16

// indexCheck is how far checkIndex is.
type indexCheck struct {
	x                  *journaletv1.BundleIndex
	at                 uint64 // of the next frame
	first, last        uint64 // the least number of the next record, and the last one so far
	records, manifests uint64
	perSet             map[uint64]uint64
}

func (c *indexCheck) frame(i int, f *journaletv1.BundleFrame) error {
	what, limit := place(i, f), uint64(MaxFrameBytes)
	if f.GetContent() == journaletv1.BundleContent_BUNDLE_CONTENT_HEADER {
		limit = maxHeaderBytes
	}
	if f.GetOffset() != c.at {
		return problemf("byte %d: the index has %s at byte %d: %s", c.at, what, f.GetOffset(), copyAgain)
	}
	if err := checkSizes(what, c.at, f.GetStoredBytes(), f.GetBytes(), limit); err != nil {
		return err
	}
	c.at += uint64(f.GetStoredBytes())
	header := f.GetContent() == journaletv1.BundleContent_BUNDLE_CONTENT_HEADER
	if header != (i == 0) || len(f.GetSha256()) != sha256.Size || f.GetItems() == 0 || f.GetItems() > f.GetBytes()/2 {
		return problemf("byte %d: the index describes %s wrongly: %s", f.GetOffset(), what, copyAgain)
	}
	switch f.GetContent() {
	case journaletv1.BundleContent_BUNDLE_CONTENT_HEADER:
	case journaletv1.BundleContent_BUNDLE_CONTENT_SNAPSHOTS:
		c.perSet[f.GetFirst()] += uint64(f.GetItems())
	case journaletv1.BundleContent_BUNDLE_CONTENT_MANIFESTS:
		c.manifests += uint64(f.GetItems())
	case journaletv1.BundleContent_BUNDLE_CONTENT_RECORDS:
		return c.recordsOf(what, f)
	default:
		return problemf("byte %d: %s has content %d, which this version does not know: use the version that wrote the bundle",
			f.GetOffset(), what, f.GetContent())
	}
	return nil
}

func (c *indexCheck) recordsOf(what string, f *journaletv1.BundleFrame) error {
	first, last, items := f.GetFirst(), f.GetLast(), uint64(f.GetItems())
	if first == 0 || first > last || first < c.first || last-first < items-1 {
		return problemf("byte %d: the index has records %d to %d (%d) in %s, which does not follow from the frame before: %s",
			f.GetOffset(), first, last, items, what, copyAgain)
	}
	at := uint64(0)
	for _, d := range f.GetActors() {
		at += uint64(d)
	}
	if at >= uint64(len(c.x.GetActors())) && len(f.GetActors()) > 0 || len(f.GetActors()) > len(c.x.GetActors()) {
		return problemf("byte %d: the index names actors in %s that it does not list: %s", f.GetOffset(), what, copyAgain)
	}
	c.records += items
	c.first, c.last = last+1, last
	return nil
}

// place names a frame in errors.
func place(i int, f *journaletv1.BundleFrame) string {
	switch f.GetContent() {
	case journaletv1.BundleContent_BUNDLE_CONTENT_HEADER:
		return "the header"
	case journaletv1.BundleContent_BUNDLE_CONTENT_RECORDS:
		return fmt.Sprintf("frame %d (records %d to %d)", i, f.GetFirst(), f.GetLast())
	case journaletv1.BundleContent_BUNDLE_CONTENT_SNAPSHOTS:
		return fmt.Sprintf("frame %d (snapshots at %d)", i, f.GetFirst())
	case journaletv1.BundleContent_BUNDLE_CONTENT_MANIFESTS:
		return fmt.Sprintf("frame %d (manifests)", i)
	}
	return fmt.Sprintf("frame %d", i)
}
