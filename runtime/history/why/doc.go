// Package why answers why something is as it is: the chain of causes behind a record up to a fact from outside, what a
// pod's state follows from, and why a container was restarted.
//
// The model is in ADR 033. causes.go has one link: what led to an event. chain.go follows links to their end.
// Everything is read through journal.go, which bounds how much of the journal one query may read.
//
// It is pure: it reads a history.Reader and touches no runtime, no network and no file.
package why
