package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that compiles a regular expression with its first call. A variable of a package that is one
// would have every command of the program wait for it. It panics if the expression is none.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
