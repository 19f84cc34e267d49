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

// Disk is a folder seen through a slower disk.
type Disk struct {
	delay  time.Duration
	syncs  atomic.Int64
	server *fuse.Server
}

// Mount shows the folder from at the folder at, which must exist, with delay added to each sync. The two
// are not the same folder: what is below a mount is out of its reach. Who serves a mount does not use it: a process that
// opens files on its own mount can wait for itself.
func Mount(from, at string, delay time.Duration) (*Disk, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Stat(from, &st); err != nil {
		return nil, fmt.Errorf("slowdisk: look at %s, the folder to be shown: %w", from, err)
	}
	d := &Disk{delay: delay}
	root := &fs.LoopbackRoot{Path: from, Dev: st.Dev}
	root.RootNode = &node{LoopbackNode: fs.LoopbackNode{RootData: root}, disk: d}
	second := time.Second // how long the kernel may go on with what it knows: nobody else changes the folder
	d.server, err = fs.Mount(at, root.RootNode, &fs.Options{
		AttrTimeout: &second, EntryTimeout: &second,
		// Mounted by the kernel at once: fusermount is not there on every machine, and root has no need of it. What a
		// container mounts from the folder is used by other users.
		MountOptions: fuse.MountOptions{DirectMountStrict: true, AllowOther: true, FsName: from, Name: "slowdisk"},
	})
	if err != nil {
		return nil, fmt.Errorf("slowdisk: mount %s at %s (this needs root and /dev/fuse): %w", from, at, err)
	}
	return d, nil
}

// Syncs tells how many syncs were delayed so far.
func (d *Disk) Syncs() int64 { return d.syncs.Load() }

// Close takes the mount away. Whatever still has files open there keeps it from being served on, not from ending.
func (d *Disk) Close() error {
	if d.server.Unmount() == nil {
		return nil
	}
	return fmt.Errorf("slowdisk: something still uses the mount; end it, then `umount` the folder")
}

func (d *Disk) sync() {
	d.syncs.Add(1)
	time.Sleep(d.delay)
}

// node is a file or folder whose syncs are delayed.
type node struct {
	fs.LoopbackNode
	disk *Disk
}

// WrapChild implements fs.NodeWrapChilder: what lies below a node of ours is one, too.
func (n *node) WrapChild(_ context.Context, _ fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: fs.LoopbackNode{RootData: n.RootData}, disk: n.disk}
}

// handle is all that an open file of the loopback can do, but for handing its descriptor to the kernel, which would
// then write past us.
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

// folder is the same of an open folder.
type folder interface {
	fs.FileReaddirenter
	fs.FileReleasedirer
	fs.FileSeekdirer
	fs.FileFsyncdirer
}

type slowFile struct {
	handle
	disk *Disk
}

type slowFolder struct {
	folder
	disk *Disk
}

func (n *node) wrap(h fs.FileHandle) (fs.FileHandle, syscall.Errno) {
	switch h := h.(type) {
	case handle:
		return &slowFile{h, n.disk}, 0
	case folder:
		return &slowFolder{h, n.disk}, 0
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
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, h, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	h, errno = n.wrap(h)
	return inode, h, fuseFlags, errno
}

// Fsync implements fs.FileFsyncer. The kernel asks for it after a write to a file opened with O_SYNC or O_DSYNC, too.
func (f *slowFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	f.disk.sync()
	return f.handle.Fsync(ctx, flags)
}

// Fsyncdir implements fs.FileFsyncdirer.
func (f *slowFolder) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	f.disk.sync()
	return f.folder.Fsyncdir(ctx, flags)
}
