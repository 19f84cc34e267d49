// Package fakecsi is a CSI driver for tests: it stages a volume by a bind mount of a directory, publishes it by another
// one, and hangs, lies and fails as a test wants. It runs within the test or as a process of its own. It may not be
// used outside of tests. Mounts need root. Start reading at driver.go.
package fakecsi
