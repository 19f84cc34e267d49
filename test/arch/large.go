package arch

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxFileBytes bounds each file of the checkout: three times the largest recorded history.
const maxFileBytes = 1 << 20

// checkLarge refuses what was built in the checkout and committed with the rest.
func checkLarge(t *tree) {
	for _, name := range t.names {
		st, err := os.Stat(filepath.Join(t.root, filepath.FromSlash(name)))
		if err == nil && st.Size() > maxFileBytes {
			t.found = append(t.found, finding{path: name, text: fmt.Sprintf("%d bytes, at most %d: remove what was built here",
				st.Size(), maxFileBytes)})
		}
	}
}
