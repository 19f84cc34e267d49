// Package fakedra is a DRA driver for tests: it keeps which claims it has prepared, and hangs, lies, fails and answers
// garbage as a test wants. It may not be used outside of tests. Start reading at driver.go.
package fakedra
