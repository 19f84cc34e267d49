// Package slowdisk mounts a folder a second time through FUSE, so that each sync takes longer: a slow disk for
// measurements on a machine that has a fast one and no device mapper. It delays what a disk would delay (fsync,
// fdatasync, a write to a file opened with O_SYNC or O_DSYNC) and nothing else. It needs root and /dev/fuse. Start with
// disk.go.
package slowdisk
