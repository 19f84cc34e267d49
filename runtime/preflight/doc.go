// Package preflight checks a machine before the agent uses it. `journalet check` prints the results, and the agent does
// not start beside a kubelet on the same runtime. A check only reads: it creates no directory, loads no module and sets
// nothing. A failed check has a remedy to type. Every check reads below a root directory, so that tests can build a
// machine. Start with Run in preflight.go; kubelet.go is the check that the start uses.
package preflight
