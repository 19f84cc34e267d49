package manifest

import (
	"regexp"
	"sync"
)

// pattern returns a regular expression that is compiled when it is first needed: every command of the program would
// wait for it, and few read manifests.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
