// Package disk mounts file systems that are on block devices: it finds out what is on one, formats it where there
// is nothing, has it checked, mounted and grown, by the node's programs. It may not decide when that is due, nor
// touch what is mounted. A disk may hang: each program has a deadline, and of one disk only one is under way (ADR 105).
// Start reading at disk.go.
package disk
