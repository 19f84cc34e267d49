// Package plain keeps text that others wrote from acting on what shows or stores it: bytes that are not UTF-8, and
// characters that a terminal obeys. It knows no messages, does no I/O, and allocates nothing for a text that is fine.
package plain
