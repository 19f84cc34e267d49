// Package scenario runs the agent's deciders through stories written as text, on the host's plain
// core: no bus, no protoactor, no runtime, no clock but the story's.
//
// A story plays the world itself, command by command, and shows every decision that follows. After
// each command the harness looks behind the story: the journal is replayed and must agree; nothing
// may be stuck, spin or run twice, which is found out by letting a world without faults play on to
// the end; every observation told again or late must change nothing. After the story the agent is
// killed at every single record of its journal, and what it comes to must be the same each time.
// The package decides nothing and is only for tests. Start with a file in testdata, then story.go.
package scenario
