// Package open opens what a path names as a journal that is only read. It is the only part of history that knows files.
// Start with open.go.
package open
