// Package actors defines the decider: it folds events into a state and emits the decisions that follow. Deciders are
// pure. They read no clock, start no goroutine, take no lock, do no I/O, and know neither the bus nor the runtime. So
// normal operation, recovery and replay run the same code on the same events. Start with decider.go, then pod.
package actors
