// Package query serves read-only requests about a running agent: its pods, its journal, the agent itself. The services
// are NATS micro services on the agent's own bus (`nats micro ls` lists them). The package also has the typed client of
// the command line.
//
// It never changes anything: it inspects an actor between two of that actor's events, and reads the journal as any
// reader does. It must not hold up the agent, so every response has a bound in time and size. Start with protocol.go
// for the requests, then serve.go; watch.go follows events live without losing one.
package query
