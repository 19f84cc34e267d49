// Command journalet is the node agent and its read-only command line: `run` is the agent, the other commands query a
// running one over its bus.
//
// A command parses flags, sends requests and prints the responses; runtime/api/query has their meaning. Start with
// root.go for what all commands share, then run.go and pods.go.
package main
