// Package actors is the form of every decision that Journalet takes: a decider folds events into a
// state and says what follows from it. Deciders are pure. They read no clock, start no goroutine,
// hold no lock, do no I/O and know neither the bus nor the runtime, so that live running, recovery
// and replay are the same code reading the same events. Start with decider.go, then pod.
package actors
