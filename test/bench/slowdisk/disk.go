package slowdisk

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Disk is a directory on a slow disk.
type Disk struct {
	delay  time.Duration
	syncs  atomic.Int64
	server *fuse.Server
}

// Mount mounts the directory from at the directory at, with a delay of each sync. Both must exist, and differ: a mount
// hides the directory below it. The process that serves a mount must not use it, because it can wait for itself.
func Mount(from, at string, delay time.Duration) (*Disk, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Stat(from, &st); err != nil {
		return nil, fmt.Errorf("slowdisk: stat %s, the directory to mount: %w", from, err)
	}
	d := &Disk{delay: delay}
	root := &fs.LoopbackRoot{Path: from, Dev: st.Dev}
	root.RootNode = &node{LoopbackNode: fs.LoopbackNode{RootData: root}, disk: d}
	second := time.Second // the kernel may cache: nothing else changes the directory
	d.server, err = fs.Mount(at, root.RootNode, &fs.Options{
		AttrTimeout: &second, EntryTimeout: &second,
		// A direct mount: not every machine has fusermount, and root does not need it. Processes of containers, which have
		// other users, use mounts from the directory.
		MountOptions: fuse.MountOptions{DirectMountStrict: true, AllowOther: true, FsName: from, Name: "slowdisk"},
	})
	if err != nil {
		return nil, fmt.Errorf("slowdisk: mount %s at %s (this needs root and /dev/fuse): %w", from, at, err)
	}
	return d, nil
}

// Syncs returns how many syncs were delayed so far.
func (d *Disk) Syncs() int64 { return d.syncs.Load() }

// Close unmounts the disk. It fails while a process has files open there.
func (d *Disk) Close() error {
	if d.server.Unmount() == nil {
		return nil
	}
	return fmt.Errorf("slowdisk: a process still uses the mount; end it, then `umount` the directory")
}

func (d *Disk) sync() {
	d.syncs.Add(1)
	time.Sleep(d.delay)
}

// node is a file or directory whose syncs are delayed.
type node struct {
	fs.LoopbackNode
	disk *Disk
}

// WrapChild implements fs.NodeWrapChilder.
func (n *node) WrapChild(_ context.Context, _ fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: fs.LoopbackNode{RootData: n.RootData}, disk: n.disk}
}

// file is an open file that does not hand its descriptor to the kernel, which would then write past the delay.
type file struct {
	*fs.LoopbackFile
	disk *Disk
}

// PassthroughFd implements fs.FilePassthroughFder.
func (*file) PassthroughFd() (int, bool) { return 0, false }

// Fsync implements fs.FileFsyncer. The kernel also sends it after a write to a file that was opened with O_SYNC or
// O_DSYNC.
func (f *file) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	f.disk.sync()
	return f.LoopbackFile.Fsync(ctx, flags)
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	if f, ok := h.(*fs.LoopbackFile); ok {
		h = &file{f, n.disk}
	}
	return h, fuseFlags, errno
}

// Create implements fs.NodeCreater.
func (n *node) Create(
	ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, h, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if f, ok := h.(*fs.LoopbackFile); ok {
		h = &file{f, n.disk}
	}
	return inode, h, fuseFlags, errno
}

// loopbackDir is what an open directory of the loopback can do.
type loopbackDir interface {
	fs.FileReaddirenter
	fs.FileReleasedirer
	fs.FileSeekdirer
	fs.FileFsyncdirer
}

type dir struct {
	loopbackDir
	disk *Disk
}

// OpendirHandle implements fs.NodeOpendirHandler.
func (n *node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, fuseFlags, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if d, ok := h.(loopbackDir); ok {
		h = &dir{d, n.disk}
	}
	return h, fuseFlags, errno
}

// Fsyncdir implements fs.FileFsyncdirer.
func (d *dir) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	d.disk.sync()
	return d.loopbackDir.Fsyncdir(ctx, flags)
}
