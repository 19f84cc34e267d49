// Package measure reads what processes of this machine use, for the benches of test/bench and test/cluster/bench. It
// has no state.
package measure
