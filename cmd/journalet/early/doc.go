// Package early delays the first garbage collection of the program. The packages that it is linked from allocate three
// MiB before main begins, and most commands end soon after: a collection of that costs an eighth of a command's CPU and
// frees next to nothing.
//
// It imports the standard library alone, so that it is initialized before most others. Start with early.go.
package early
