// Package fakecsi is a CSI driver for tests: it stages a volume by a bind mount of a directory, publishes it by another
// one, and hangs, lies, fails and answers garbage as a test wants. It may not be used outside of tests. Mounts need
// root. Start reading at driver.go.
package fakecsi
