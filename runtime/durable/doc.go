// Package durable writes files that a crash at any moment leaves whole: the old content or the new one. It reads
// nothing: that is package bounded's. Start reading at write.go.
package durable
