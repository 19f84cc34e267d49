// Package messages is the contract of the bus in Go. Beside the generated types in journaletv1 it holds the ids of
// decisions, the subjects and the encoding of records, and the audience of each event. It does no I/O. Start with
// audience.go.
package messages
