// Package mount8 mounts and unmounts by mount(8) and umount(8), with a deadline for each. It may not decide what is
// mounted, nor touch it: a server that is away, or a disk that hangs, would block that. What is mounted where is read
// from the mount table (ADR 071). Start reading at mount8.go.
package mount8
