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

// handle has the methods of an open file of the loopback, except the one that gives its descriptor to the kernel, which
// would then bypass the delay.
type handle interface {
	fs.FileReader
	fs.FileWriter
	fs.FileFlusher
	fs.FileReleaser
	fs.FileGetattrer
	fs.FileSetattrer
	fs.FileAllocater
	fs.FileLseeker
	fs.FileFsyncer
	fs.FileGetlker
	fs.FileSetlker
	fs.FileSetlkwer
}

// dirHandle has the methods of an open directory of the loopback.
type dirHandle interface {
	fs.FileReaddirenter
	fs.FileReleasedirer
	fs.FileSeekdirer
	fs.FileFsyncdirer
}

type slowFile struct {
	handle
	disk *Disk
}

type slowDir struct {
	dirHandle
	disk *Disk
}

func (n *node) wrap(h fs.FileHandle) (fs.FileHandle, syscall.Errno) {
	switch h := h.(type) {
	case handle:
		return &slowFile{h, n.disk}, 0
	case dirHandle:
		return &slowDir{h, n.disk}, 0
	}
	return nil, syscall.ENOTSUP
}

// Open implements fs.NodeOpener.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	h, errno = n.wrap(h)
	return h, fuseFlags, errno
}

// OpendirHandle implements fs.NodeOpendirHandler.
func (n *node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, fuseFlags, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	h, errno = n.wrap(h)
	return h, fuseFlags, errno
}

// Create implements fs.NodeCreater.
func (n *node) Create(
	ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, h, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	h, errno = n.wrap(h)
	return inode, h, fuseFlags, errno
}

// Fsync implements fs.FileFsyncer. The kernel calls it after a write to a file opened with O_SYNC or O_DSYNC, too.
func (f *slowFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	f.disk.sync()
	return f.handle.Fsync(ctx, flags)
}

// Fsyncdir implements fs.FileFsyncdirer.
func (f *slowDir) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	f.disk.sync()
	return f.dirHandle.Fsyncdir(ctx, flags)
}
