// Package mounts says what is mounted where, by the mount table. It may not touch what is mounted: a server that is
// away would block that for as long as it is away. Start reading at mounts.go.
package mounts
