// Package program is how the agent starts programs of its node, in an environment that is the same on each: they
// inherit nothing that systemd or an operator has given the agent. Runs starts programs that may hang, each with a
// deadline. A rule of test/arch keeps os/exec to it.
package program
