// Package exectrace sums up a Go execution trace: for how long the goroutines of each part of a program ran, waited for a
// core, or were in a system call, and when. Which part a goroutine belongs to is told by the outermost function of its
// stack that is no standard library's. Start with exectrace.go.
package exectrace
