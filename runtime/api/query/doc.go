// Package query answers questions about a running agent: its pods, its journal, itself. The answers
// are NATS micro services on the agent's own bus (`nats micro ls` lists them), beside them stand the
// typed client that the commands use and the words in which events are told to people.
//
// It reads and never changes anything: it looks at an actor on that actor's own turn, and at the
// journal as any reader does. It takes no decision and may not hold up the agent, so every answer has
// a bound in time and size. Start with protocol.go for what can be asked, then serve.go; describe.go
// has the words, watch.go follows events live without losing one.
package query
