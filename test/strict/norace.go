//go:build !race

package strict

// Race reports whether the race detector is on, which multiplies what a test allocates and how long it takes: what is
// compared with a number of bytes says nothing then.
const Race = false
