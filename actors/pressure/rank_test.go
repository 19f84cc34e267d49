package pressure

import (
	"slices"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestRanking(t *testing.T) {
	const one, own, split = journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_ONE,
		journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES, journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT
	all := []Candidate{
		{UID: "within", MemoryRequest: 500, StorageRequest: 500, Usage: &journaletv1.PodUsage{
			MemoryBytes: 400, LocalBytes: 400, Processes: 1,
		}},
		{UID: "layer", Usage: &journaletv1.PodUsage{
			MemoryBytes: 100, LayerBytes: 300, LayerInodes: 9, Processes: 5,
		}},
		{UID: "local", MemoryRequest: 100, Usage: &journaletv1.PodUsage{
			MemoryBytes: 300, LocalBytes: 300, LocalInodes: 20, Processes: 7,
		}},
		{UID: "high", Priority: 10, Usage: &journaletv1.PodUsage{
			MemoryBytes: 900, LocalBytes: 900, LayerBytes: 900, LocalInodes: 900, LayerInodes: 900, Processes: 900,
		}},
		{UID: "unmeasured"},
	}
	for _, x := range []struct {
		signal Signal
		layout journaletv1.FilesystemLayout
		want   []string
	}{
		{MemoryAvailable, one, []string{"local", "layer", "high", "unmeasured", "within"}},
		{NodeFsAvailable, one, []string{"layer", "local", "high", "unmeasured", "within"}},
		{NodeFsAvailable, own, []string{"local", "high", "layer", "unmeasured", "within"}},
		{ImageFsAvailable, own, []string{"layer", "high", "local", "unmeasured", "within"}},
		{ImageFsAvailable, split, []string{"layer", "local", "unmeasured", "within", "high"}},
		{NodeFsInodesFree, one, []string{"local", "layer", "high", "unmeasured", "within"}},
		{PIDAvailable, one, []string{"local", "layer", "within", "unmeasured", "high"}},
	} {
		ranked := slices.Clone(all)
		Rank(ranked, x.signal, x.layout)
		var got []string
		for _, c := range ranked {
			got = append(got, c.UID)
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s, %s: %v, want %v", x.signal, x.layout, got, x.want)
		}
	}
}
