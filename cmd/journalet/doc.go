// Command journalet is the node agent and the means to look into it: `run` is the agent, the other
// commands ask a running one over its bus, as observers who can read and change nothing.
//
// A command parses flags, asks and prints; what an answer means is decided in runtime/api/query. Start with
// root.go for what all commands share, then run.go and pods.go.
package main
