// Package scenario runs the agent's deciders through scenarios written as text, on the host's core alone: no bus, no
// protoactor, no runtime, and a clock that only the scenario moves.
//
// A scenario plays the world, command by command, and shows every decision that follows. After each command the engine
// checks that a replay of the journal gives the same states, and that nothing is stuck, loops or runs twice. To find
// out, it plays a world without faults to the end. A repeated or late observation must change nothing. After the last
// command the agent is killed at every single record of the journal, and must reach the same final state each time.
//
// The package decides nothing and is only for tests. Start with a file in testdata, then scenario.go.
package scenario
