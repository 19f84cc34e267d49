package bundle

import (
	"slices"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestOnlyDigestsOfManifestsAreFound(t *testing.T) {
	d := newDigests()
	var found []string
	for _, e := range []*journaletv1.Event{
		messages.NewEvent(&journaletv1.PodUpdated{Pod: &journaletv1.PodRef{Digest: "manifest"}}),
		messages.NewEvent(&journaletv1.ObjectsRead{Objects: []*journaletv1.ObjectRead{{Digest: "contents"}}}),
		messages.NewEvent(&journaletv1.CallRequested{Work: &journaletv1.CallRequested_SetUpVolumes{
			SetUpVolumes: &journaletv1.SetUpVolumes{Digest: "volumes", Volumes: []*journaletv1.DesiredVolume{{Contents: "x"}}},
		}}),
	} {
		d.each(e.ProtoReflect(), func(digest string) { found = append(found, digest) })
	}
	if !slices.Equal(found, []string{"manifest", "volumes"}) {
		t.Errorf("found %q", found)
	}
}
