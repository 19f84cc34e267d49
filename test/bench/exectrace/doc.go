// Package exectrace sums up a Go execution trace: for how long the goroutines of each part of a program ran, waited
// for a core, or were in a system call. The outermost function of a goroutine's stack outside the standard library
// decides which part it belongs to. Start with exectrace.go.
package exectrace
