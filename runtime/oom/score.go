package oom

import (
	"os"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
)

// OwnScore is the kernel's file of this process's oom_score_adj, from -1000 to 1000.
const OwnScore = "/proc/self/oom_score_adj"

// maxScoreBytes bounds what is read of it.
const maxScoreBytes = 64

// SetScore writes a score into a file such as OwnScore, unless the file has it already: lowering it needs a permission
// that a process in a container, or one whose unit has OOMScoreAdjust, may lack.
func SetScore(file string, score int) error {
	want := strconv.Itoa(score)
	if now, err := bounded.ReadFile(file, maxScoreBytes); err == nil && strings.TrimSpace(string(now)) == want {
		return nil
	}
	return os.WriteFile(file, []byte(want), 0)
}
