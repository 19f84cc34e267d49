// Package slowdisk mounts a directory a second time through FUSE, with a delay of each sync: a slow disk for
// measurements on a machine with a fast one and without a device mapper. It delays fsync, fdatasync, and writes to
// files opened with O_SYNC or O_DSYNC, as a disk would, and nothing else. It needs root and /dev/fuse. Start with
// disk.go.
package slowdisk
