// Package fakedisk stands for a disk in tests, and for the programs that inspect one, format, check, mount and grow it:
// they are scripts, what is on the disk is a line in a file, and what is mounted a directory. The disk can be blank and
// damaged, and each program can fail, hang and be missing. It needs no block device, and root. It may not be used
// outside tests. Start reading at fakedisk.go.
package fakedisk
