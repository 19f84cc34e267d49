// Package integration holds the tests that need a real container runtime. They are built only with the tag
// "integration", and fail, rather than skip, when what they need can't be reached: a green run means that it ran. Each
// test names the environment variables it reads. Start reading at conformance_test.go.
package integration
