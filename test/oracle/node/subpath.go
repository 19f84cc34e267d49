package node

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// SubPath returns where a path of a volume is mounted for a container, and which path it is.
func SubPath(podDir, volume, container string, index int, path string) string {
	at := filepath.Join(podDir, "volume-subpaths", volume, container, strconv.Itoa(index))
	return fmt.Sprintf("%s=%s", at, path)
}
