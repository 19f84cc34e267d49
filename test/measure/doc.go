// Package measure reads what processes of this machine use, and has the figures that the benches of test/bench,
// test/cluster/bench and test/load compute in the same way. It has no state.
package measure
