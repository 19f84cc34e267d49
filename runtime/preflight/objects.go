package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/journalet/journalet/runtime/objects/files"
)

// objects checks the files of objects and tokens, if configured.
func (m *machine) objects(context.Context) []Check {
	var all []Check
	if path := m.cfg.ObjectsPath; path != "" {
		all = append(all, m.objectFiles(path))
	}
	for _, account := range slices.Sorted(maps.Keys(m.cfg.ServiceAccountTokenFiles)) {
		path := m.cfg.ServiceAccountTokenFiles[account]
		if st, err := os.Stat(m.path(path)); err != nil || !st.Mode().IsRegular() {
			all = append(all, Check{Status: Warn, Message: fmt.Sprintf("no file %s with the token of service account %s: "+
				"its pods wait for it", path, account), Remedy: "write the token into " + path + ", with mode 0600"})
		}
	}
	return all
}

func (m *machine) objectFiles(path string) Check {
	if _, err := os.Stat(m.path(path)); err != nil {
		return Check{Status: Warn, Message: path + " does not exist: pods that need its objects wait for them",
			Remedy: "mkdir -p " + path}
	}
	found, problems := files.Inspect(m.path(path))
	if len(problems) > 0 {
		return Check{Status: Warn, Message: strings.Join(problems, "; "),
			Remedy: "fix the files, or choose others with --objects-path"}
	}
	var counts []string
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		counts = append(counts, fmt.Sprintf("%s: %d", kind, found[kind]))
	}
	return ok("%s holds %s", path, cmp.Or(strings.Join(counts, ", "), "no objects"))
}
