// Package integration holds the tests that need a real container runtime: the conformance of the runtime itself, and the
// agent's own program on it, started, killed and fed with manifests as on a node. They are built only with the tag
// "integration", and fail, rather than skip, when what they need can't be reached: a green run means that it ran. They
// need root, and JOURNALET_TEST_CRI_ENDPOINT, the CRI socket of a containerd with the image of deploy/lab/README.md.
// Nothing outside this package's tests may import it. Start reading at harness_test.go, an agent of package test/node whose
// journal is followed, and journal_test.go, by which tests wait for what the agent learns and decides; then at any file
// named for its subject.
package integration
