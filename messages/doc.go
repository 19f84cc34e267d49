// Package messages is the contract of the bus in Go: beside the generated types in journaletv1 it
// holds the ids of decisions, the subjects that records stand under, the encoding of records, and
// the table of who hears of which event. It does no I/O and knows no actor. Start with audience.go.
package messages
