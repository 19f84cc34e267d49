// Package integration holds the tests on a real container runtime: the conformance of the runtime, and the agent's
// program, which is started, killed and given manifests as on a node. They are built only with the tag "integration".
// They need root, and JOURNALET_TEST_CRI_ENDPOINT, the CRI socket of a containerd with the image of
// deploy/lab/README.md; without them they fail, they do not skip. Nothing outside this package's tests may import it.
// Start reading at harness_test.go, an agent of package test/node whose journal is followed, and journal_test.go, by
// which tests wait for events.
package integration
