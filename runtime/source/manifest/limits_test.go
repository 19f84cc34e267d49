package manifest_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/envfile"
	"github.com/journalet/journalet/runtime/cri/expand"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

func TestLimitsPageFollowsTheCode(t *testing.T) {
	page, err := os.ReadFile("../../../docs/LIMITS.md")
	must.OK(t, err)
	limits := maps.Clone(manifest.Limits)
	limits["MaxIDBytes"], limits["MaxAnnotationBytes"] = messages.MaxIDBytes, cri.MaxAnnotationBytes
	limits["MaxStringBytes"], limits["MaxTotalBytes"] = expand.MaxStringBytes, expand.MaxTotalBytes
	limits["MaxFileBytes"] = envfile.MaxFileBytes
	for name, value := range limits {
		rows := 0
		for line := range strings.Lines(string(page)) {
			if strings.Contains(line, "| `"+name+"` |") {
				rows++
				if !strings.Contains(line, fmt.Sprintf("%d ", value)) {
					t.Errorf("%s is %d: %s", name, value, line)
				}
			}
		}
		if rows == 0 {
			t.Errorf("%s has no row", name)
		}
	}
}
