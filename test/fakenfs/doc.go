// Package fakenfs stands for NFS servers in tests: a mount.nfs that bind-mounts directories of the test in place of
// exports, with mount(8) and umount(8) before it that can fail and hang. It needs no NFS in the kernel, and root. It
// may not be used outside tests. Start reading at fakenfs.go.
package fakenfs
