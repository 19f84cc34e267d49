package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that compiles a regular expression with its first call, and panics then if expr is not a
// regular expression. A variable of a package that has a compiled one would have every command of the program wait.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
