// Command gate carries out the tiers of tests: the tiers that every change has to pass (`make test`, .ci/run), and
// everything there is (`make nightly`). It continues after a failure, and its output ends with the result: a line for
// each tier with its time and how busy the machine was, then each failed test with what it printed and the command that
// repeats it alone.
//
// A change is refused for what fails each time. A test that fails, and then succeeds three times alone, is unsteady:
// the gate names it and lets the change pass, the nightly run counts it as a failure
// (docs/adr/073-what-refuses-a-change.md).
//
// It decides nothing about the agent and imports none of its packages. Begin with tiers.go.
package main
