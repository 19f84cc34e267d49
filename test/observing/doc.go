// Package observing connects many observers to an agent's bus, each with many subscriptions: a load that must not slow
// the agent. They speak the protocol of NATS themselves and discard what they receive, so that they cost little beside
// the agent. Only for tests; it imports nothing of the agent. Start with Join. Its load is measured by
// BenchmarkHopBesideObservers of bus (appends) and BenchmarkBurstBesideObservers of test/load (a burst of pods).
package observing
